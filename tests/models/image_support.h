#pragma once

#include <array>

#include "support.h"

namespace accrue::models::testing {

/// Inputs for the tests of layers and modules.
inline constexpr std::array<std::int64_t, 3> tiny_image{2, 4, 4};
inline constexpr std::int64_t tiny_classes = 5;

/// `samples` normal images with random classes; the third, if there is one, has no label.
inline batch::MicroBatch random_images(const std::array<std::int64_t, 3>& image,
                                       std::int64_t classes, std::int64_t samples,
                                       std::uint64_t seed = 5) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  batch::MicroBatch micro;
  micro.inputs = at::randn({samples, image[0], image[1], image[2]}, generator, at::TensorOptions());
  micro.targets =
      at::randint(0, classes, {samples}, generator, at::TensorOptions().dtype(at::kLong));
  if (samples > 2) micro.targets[2] = -100;
  for (std::int64_t i = 0; i < samples; ++i) micro.sample_ids.push_back(40 + i);
  micro.tokens = samples;
  return micro;
}

using TensorsByName = std::map<std::string, at::Tensor>;

/// Leaves with the same values, in double, with the names and layout of files.
inline TensorsByName double_leaves(const Model& model) {
  TensorsByName leaves;
  for (const auto& [name, tensor] : model.file_tensors())
    leaves[name] = at::isFloatingType(tensor.scalar_type())
                       ? tensor.to(at::kDouble).clone().requires_grad_(true)
                       : tensor.clone();
  return leaves;
}

/// The gradients that autograd leaves in the parameters, as NamedParameters in their own layout.
inline NamedParameters gradients_of(Trainable& model, const batch::MicroBatch& micro) {
  const Loss loss = forward(model, micro, context_of(micro));
  std::vector<at::Tensor> leaves;
  for (const auto& [name, tensor] : model.parameters()) leaves.push_back(tensor);
  const std::vector<at::Tensor> gradients = torch::autograd::grad({loss.sum}, leaves);
  NamedParameters named;
  for (std::size_t i = 0; i < leaves.size(); ++i)
    named.push_back({model.parameters()[i].name, gradients[i]});
  return named;
}

}  // namespace accrue::models::testing
