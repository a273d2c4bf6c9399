#include "train/workload/model_digest.h"

#include "core/checksum.h"

namespace accrue::train {

std::string digest_of(const models::Model& model) {
  Checksum checksum;
  for (const NamedParameter& kept : model.file_tensors()) {
    const at::Tensor values = kept.tensor.detach().cpu().contiguous();
    checksum.add(kept.name);
    checksum.add({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
  }
  return checksum.text();
}

}  // namespace accrue::train
