// The sentencepiece library behind standard types: its header cannot stand in one source file with Abseil's.
#ifndef SCD_COMMON_MODEL_SPM_PROCESSOR_H_
#define SCD_COMMON_MODEL_SPM_PROCESSOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace scd {

// Immutable once loaded, and thread-safe.
class SpmProcessor {
 public:
  // A loaded processor, or null with the library's words in `error`.
  static std::unique_ptr<SpmProcessor> Load(std::string_view serialized, std::string* error);

  ~SpmProcessor();
  SpmProcessor(const SpmProcessor&) = delete;
  SpmProcessor& operator=(const SpmProcessor&) = delete;

  // Appends the ids of text; false with the library's words in `error`.
  bool Encode(std::string_view text, std::vector<std::int32_t>* ids, std::string* error) const;

  std::int32_t num_pieces() const;
  std::int32_t bos_id() const;  // < 0: none
  std::int32_t eos_id() const;

 private:
  struct Impl;
  explicit SpmProcessor(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace scd

#endif  // SCD_COMMON_MODEL_SPM_PROCESSOR_H_
