#include "distributed/group/device_engine.h"

#include <dlfcn.h>

#include <filesystem>
#include <optional>
#include <string>

#include "accrue/core/error.h"
#include "accrue/distributed/group.h"
#include "core/loaded_libraries.h"

namespace accrue::distributed {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> library() {
  const fs::path here = library_of(reinterpret_cast<const void*>(&make_nccl_engine)).parent_path();
  for (const fs::path& folder : {here, here / "../lib/accrue"})
    if (std::error_code error; fs::exists(folder / kNcclLibrary, error))
      return folder / kNcclLibrary;
  return std::nullopt;
}

Error refused(const std::string& expected, const std::string& received) {
  return {Error::Kind::usage, "dist.backend = \"nccl\"", expected, received,
          "a build where NCCL's and CUDA's headers are (docs/guide/gpu.md), or backend = \"gloo\""};
}

MakeNcclEngine load() {
  const auto file = library();
  if (!file) throw refused("a build with NCCL", std::string("one without ") + kNcclLibrary);
  void* const opened = dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) throw refused(file->string() + " with all that it needs", dlerror());
  void* const make = dlsym(opened, kMakeNcclEngine);
  if (make == nullptr) throw refused("the library of this version", dlerror());
  return reinterpret_cast<MakeNcclEngine>(make);
}

}  // namespace

bool has_nccl() { return library().has_value(); }

NcclEngine make_nccl_engine(const NcclRequest& request) {
  NcclEngine made;
  load()(request, made);
  return made;
}

}  // namespace accrue::distributed
