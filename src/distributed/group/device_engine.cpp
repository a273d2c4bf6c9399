#include "distributed/group/device_engine.h"

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

}  // namespace

bool has_nccl() { return own_library(kNcclLibrary).has_value(); }

NcclEngine make_nccl_engine(const NcclRequest& request) {
  const auto make = reinterpret_cast<MakeNcclEngine>(
      own_function(kNcclLibrary, "NCCL", kMakeNcclEngine, refused));
  NcclEngine made;
  make(request, made);
  return made;
}

}  // namespace accrue::distributed
