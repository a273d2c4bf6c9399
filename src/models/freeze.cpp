#include "accrue/models/freeze.h"

#include <ATen/core/Tensor.h>

#include "accrue/core/error.h"
#include "core/name_pattern.h"

namespace accrue::models {

void freeze_parameters(const Trainable& model, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  const NamedParameters parameters = model.parameters();
  std::vector<std::string> names;
  for (const NamedParameter& parameter : parameters) names.push_back(parameter.name);
  check_patterns("model.freeze", patterns, names);
  for (const NamedParameter& parameter : parameters)
    if (matches_any(patterns, parameter.name))
      at::Tensor(parameter.tensor).set_requires_grad(false);
  if (trained_parameter_count(model) == 0)
    throw usage_error("model.freeze", "patterns that leave something to train",
                      "ones that match all " + std::to_string(names.size()) + " parameters",
                      "fewer patterns, of " + families_of(names));
}

std::int64_t trained_parameter_count(const Trainable& model) {
  std::int64_t count = 0;
  for (const NamedParameter& parameter : model.parameters())
    if (parameter.tensor.requires_grad()) count += parameter.tensor.numel();
  return count;
}

}  // namespace accrue::models
