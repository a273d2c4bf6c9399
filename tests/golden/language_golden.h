#pragma once

#include <torch/csrc/autograd/autograd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "accrue/models/compute.h"
#include "accrue/models/safetensors.h"
#include "accrue/models/trainable.h"

/// The common part of the C++ halves of the comparisons with transformers' language models.
namespace accrue::models {

inline Compute compute_of(const std::string& name) {
  static const std::map<std::string, Compute> names{
      {"fp32", Compute::fp32}, {"bf16", Compute::bf16}, {"fp64", Compute::fp64}};
  return names.at(name);
}

/// FOLDER/batch.safetensors: inputs and targets, and, if rows hold samples that do not fill them,
/// `spans`, [samples, 3]: row, begin and end of each.
inline batch::MicroBatch read_batch(const std::filesystem::path& folder) {
  batch::MicroBatch micro;
  for (const auto& [name, tensor] : read_safetensors(folder / "batch.safetensors").tensors) {
    if (name == "inputs") micro.inputs = tensor;
    if (name == "targets") micro.targets = tensor;
    if (name == "spans")
      for (std::int64_t i = 0; i < tensor.size(0); ++i)
        micro.spans.push_back({i, tensor[i][0].item<std::int64_t>(),
                               tensor[i][1].item<std::int64_t>(),
                               tensor[i][2].item<std::int64_t>()});
  }
  const auto samples =
      micro.spans.empty() ? micro.inputs.size(0) : static_cast<std::int64_t>(micro.spans.size());
  for (std::int64_t sample = 0; sample < samples; ++sample) micro.sample_ids.push_back(sample);
  return micro;
}

inline Loss forward(Trainable& model, const batch::MicroBatch& micro) {
  const ForwardContext context = batch::training_context(micro, /*seed=*/0, /*window=*/0);
  return model.losses().front().forward(run_segments(model, micro, context), micro, context, 1);
}

inline at::Tensor mean_of(const Loss& loss) {
  return loss.sum.detach().to(at::kDouble) / loss.weight;
}

/// Writes FOLDER/ours.safetensors: the mean loss of FOLDER's batch and its gradients of the trained
/// parameters, which `as_stored` converts into the layout of files.
inline void write_gradients(const std::filesystem::path& folder, Trainable& model,
                            const std::function<NamedParameters(NamedParameters)>& as_stored) {
  const Loss loss = forward(model, read_batch(folder));
  NamedParameters parameters;
  std::vector<at::Tensor> leaves;
  for (const NamedParameter& parameter : model.parameters()) {
    if (!parameter.tensor.requires_grad()) continue;
    parameters.push_back(parameter);
    leaves.push_back(parameter.tensor);
  }
  const auto gradients = torch::autograd::grad({loss.sum}, leaves);
  NamedParameters named;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    named.push_back({parameters[i].name, gradients[i] / loss.weight});
  named = as_stored(named);
  named.push_back({"loss", mean_of(loss)});
  write_safetensors(folder / "ours.safetensors", named);
}

/// Writes FOLDER/ours.safetensors with the mean loss of FOLDER's batch alone.
inline void write_loss(const std::filesystem::path& folder, Trainable& model) {
  write_safetensors(folder / "ours.safetensors",
                    {{"loss", mean_of(forward(model, read_batch(folder)))}});
}

}  // namespace accrue::models
