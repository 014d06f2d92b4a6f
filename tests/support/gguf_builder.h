// Writes small GGUF files value by value, well-formed or not, for tests.
#ifndef SCD_TESTS_SUPPORT_GGUF_BUILDER_H_
#define SCD_TESTS_SUPPORT_GGUF_BUILDER_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace scd::testing {

class GgufBuilder {
 public:
  GgufBuilder& String(const std::string& key, const std::string& value) { return Value(key, 8, Text(value)); }
  GgufBuilder& U32(const std::string& key, std::uint32_t value) { return Value(key, 4, Raw(value)); }
  GgufBuilder& F32(const std::string& key, float value) { return Value(key, 6, Raw(value)); }
  GgufBuilder& Bool(const std::string& key, std::uint8_t value) { return Value(key, 7, Raw(value)); }
  // The bytes of a value of any type, right or wrong.
  GgufBuilder& Value(const std::string& key, std::uint32_t type, const std::string& bytes) {
    values_.push_back({key, Text(key) + Raw(type) + bytes});
    return *this;
  }
  template <typename T>
  GgufBuilder& Array(const std::string& key, std::uint32_t element_type, const std::vector<T>& elements) {
    std::string bytes = Raw(element_type) + Raw(std::uint64_t{elements.size()});
    for (const T& element : elements) bytes += Element(element);
    return Value(key, 9, bytes);
  }
  // Leaves out what was added under this key.
  GgufBuilder& Remove(const std::string& key) {
    std::erase_if(values_, [&key](const Item& item) { return item.name == key; });
    std::erase_if(tensors_, [&key](const TensorItem& item) { return item.name == key; });
    return *this;
  }

  // Dimensions in row-major order, as Shape has them.
  GgufBuilder& Tensor(const std::string& name, const std::vector<std::uint64_t>& shape, std::uint32_t type,
                      const std::string& data) {
    tensors_.push_back({name, shape, type, data});
    return *this;
  }
  GgufBuilder& F32Tensor(const std::string& name, const std::vector<std::uint64_t>& shape, float first) {
    std::uint64_t count = 1;
    for (const std::uint64_t dim : shape) count *= dim;
    std::string data;
    for (std::uint64_t i = 0; i < count; ++i) data += Raw(first + static_cast<float>(i));
    return Tensor(name, shape, 0, data);
  }

  std::string Build(std::uint32_t version = 3) const {
    std::string out =
        "GGUF" + Raw(version) + Raw(std::uint64_t{tensors_.size()}) + Raw(std::uint64_t{values_.size()});
    for (const Item& item : values_) out += item.bytes;
    std::string data;
    for (const TensorItem& tensor : tensors_) {
      out += Text(tensor.name) + Raw(static_cast<std::uint32_t>(tensor.shape.size()));
      for (auto dim = tensor.shape.rbegin(); dim != tensor.shape.rend(); ++dim) out += Raw(*dim);
      out += Raw(tensor.type) + Raw(std::uint64_t{data.size()});
      data += tensor.data;
      data.resize((data.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
    }
    out.resize((out.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
    return out + data;
  }

  template <typename T>
  static std::string Raw(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  static std::string Text(const std::string& text) { return Raw(std::uint64_t{text.size()}) + text; }

 private:
  static constexpr std::size_t kAlignment = 32;

  struct Item {
    std::string name;
    std::string bytes;
  };
  struct TensorItem {
    std::string name;
    std::vector<std::uint64_t> shape;
    std::uint32_t type;
    std::string data;
  };

  static std::string Element(const std::string& text) { return Text(text); }
  template <typename T>
  static std::string Element(T value) {
    return Raw(value);
  }

  std::vector<Item> values_;
  std::vector<TensorItem> tensors_;
};

}  // namespace scd::testing

#endif  // SCD_TESTS_SUPPORT_GGUF_BUILDER_H_
