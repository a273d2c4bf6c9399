#include "train/config/translations/other_words.h"

namespace accrue::train {

std::vector<Refused> half_precisions() {
  std::vector<Refused> names;
  for (const char* other : {"half", "float16", "16", "fp16-mixed", "16-mixed"})
    names.push_back({other, "called \"fp16\" here, which GPUs alone are fast in",
                     "\"bf16\", or \"fp16\" on a GPU", false});
  return names;
}

std::vector<Refused> other_devices() {
  std::vector<Refused> names;
  for (const char* other : {"gpu", "cuda:0", "nvidia", "rocm"})
    names.push_back({other, "called \"cuda\" here", "\"cuda\"", false});
  return names;
}

std::vector<Refused> other_optimizers() {
  std::vector<Refused> names;
  for (const char* other : {"nadam", "radam", "adamax", "adamp", "adan", "nadamw", "sgdw", "sgdp"})
    names.push_back(
        {other, "another optimizer, not in this version", "one of these values", false});
  return names;
}

}  // namespace accrue::train
