#include "kernels/cuda/load_plugin.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cuda/plugin.h"
#include "kernels/status_macros.h"

namespace scd {
namespace {

constexpr char kLibrary[] = "libscd_cuda.so";

std::vector<std::string> Places() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::filesystem::path folder = program.parent_path();
  return {(folder / kLibrary).string(), (folder.parent_path() / "lib" / "scd" / kLibrary).string()};
}

template <typename... Parts>
absl::Status NotPossible(const Parts&... parts) {
  return absl::FailedPreconditionError(absl::StrCat("device cuda is not possible: ", parts...));
}

absl::StatusOr<std::string> FindLibrary(const BackendOptions& options) {
  std::error_code error;
  if (!options.cuda.plugin.empty()) {
    if (std::filesystem::exists(options.cuda.plugin, error)) return options.cuda.plugin;
    return NotPossible("there is no ", options.cuda.plugin);
  }
  const std::vector<std::string> places = Places();
  for (const std::string& place : places) {
    if (std::filesystem::exists(place, error)) return place;
  }
  return NotPossible("this build has no cuda backend, there is no ", absl::StrJoin(places, " and no "));
}

absl::StatusOr<const CudaPlugin*> Load(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NotPossible(dlerror());
  const auto entry = reinterpret_cast<CudaPluginFunction>(dlsym(library, kCudaPluginEntry));
  if (entry == nullptr) return NotPossible(path, " is another library");
  const CudaPlugin* plugin = entry();
  if (plugin->interface != SCD_CUDA_INTERFACE) {
    return NotPossible(path, " was built from other sources than this program");
  }
  if (std::strcmp(plugin->build, kCudaPluginBuild) != 0) {
    return NotPossible(path, " was built by compiler ", plugin->build, ", this program by ",
                       kCudaPluginBuild);
  }
  return plugin;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const BackendOptions& options) {
  SCD_ASSIGN_OR_RETURN(const std::string path, FindLibrary(options));
  SCD_ASSIGN_OR_RETURN(const CudaPlugin* plugin, Load(path));
  auto backend = plugin->create(options);
  if (absl::IsFailedPrecondition(backend.status())) return NotPossible(backend.status().message());
  return backend;
}

}  // namespace scd
