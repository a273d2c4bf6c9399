#include "train/workload/model_digest.h"

#include "accrue/memory/offload_passes.h"
#include "accrue/models/torchscript.h"
#include "core/checksum.h"

namespace accrue::train {

std::string digest_of(const models::Model& model) {
  Checksum checksum;
  for (const NamedParameter& kept : model.file_tensors()) {
    memory::keep_only(kept.tensor);
    const at::Tensor values = kept.tensor.detach().cpu().contiguous();
    checksum.add(kept.name);
    checksum.add({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
  }
  return checksum.text();
}

std::string digest_of_module(const models::Model& model) {
  const auto* module = dynamic_cast<const models::TorchScriptModel*>(&model);
  return module == nullptr ? "" : module->digest();
}

}  // namespace accrue::train
