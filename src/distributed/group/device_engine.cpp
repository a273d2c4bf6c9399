#include "distributed/group/device_engine.h"

#include <dlfcn.h>

#include <string>

#include "accrue/core/error.h"
#include "accrue/distributed/group.h"
#include "core/loaded_libraries.h"

namespace accrue::distributed {
namespace {

Error refused(const std::string& expected, const std::string& received) {
  return {Error::Kind::usage, "dist.backend = \"nccl\"", expected, received,
          "a build where NCCL's and CUDA's headers are (docs/guide/gpu.md), or backend = \"gloo\""};
}

MakeNcclEngine load() {
  const auto file = own_library(kNcclLibrary);
  if (!file) throw refused("a build with NCCL", std::string("one without ") + kNcclLibrary);
  void* const opened = dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) throw refused(file->string() + " with all that it needs", dlerror());
  void* const make = dlsym(opened, kMakeNcclEngine);
  if (make == nullptr) throw refused("the library of this version", dlerror());
  return reinterpret_cast<MakeNcclEngine>(make);
}

}  // namespace

bool has_nccl() { return own_library(kNcclLibrary).has_value(); }

NcclEngine make_nccl_engine(const NcclRequest& request) {
  NcclEngine made;
  load()(request, made);
  return made;
}

}  // namespace accrue::distributed
