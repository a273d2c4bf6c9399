#include "train/config/translations/other_words.h"

namespace accrue::train {

std::vector<Refused> half_precisions() {
  const std::string reason =
      "not in this version: it trains on the CPU, which has no usable fp16 matrix product; bf16 is "
      "its mixed precision";
  std::vector<Refused> names{{"fp16", reason, "\"bf16\""}};
  for (const char* other : {"half", "float16", "16", "fp16-mixed", "16-mixed"})
    names.push_back({other, reason, "\"bf16\"", false});
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
