// The C++ half of gpt2_golden.py, in both directions:
//   gpt2_golden gradients FOLDER fp32|fp64|bf16   reads FOLDER/batch.safetensors, writes
//   FOLDER/ours.safetensors gpt2_golden export FOLDER fp32|fp64           writes a model of its own
//   and FOLDER/ours.safetensors
#include <torch/csrc/autograd/autograd.h>

#include <iostream>
#include <map>

#include "accrue/core/error.h"
#include "accrue/models/gpt2_io.h"
#include "accrue/models/safetensors.h"

namespace accrue::models {
namespace {

Compute compute_of(const std::string& name) {
  static const std::map<std::string, Compute> names{
      {"fp32", Compute::fp32}, {"bf16", Compute::bf16}, {"fp64", Compute::fp64}};
  return names.at(name);
}

batch::MicroBatch read_batch(const std::filesystem::path& folder) {
  batch::MicroBatch micro;
  for (const auto& [name, tensor] : read_safetensors(folder / "batch.safetensors").tensors)
    (name == "inputs" ? micro.inputs : micro.targets) = tensor;
  for (std::int64_t row = 0; row < micro.inputs.size(0); ++row) micro.sample_ids.push_back(row);
  return micro;
}

Loss forward(Gpt2& model, const batch::MicroBatch& micro) {
  const ForwardContext context{.training = true, .sample_ids = micro.sample_ids};
  return model.losses().front().forward(run_segments(model, micro, context), micro, context, 1);
}

at::Tensor mean_of(const Loss& loss) { return loss.sum.detach().to(at::kDouble) / loss.weight; }

void write_gradients(const std::filesystem::path& folder, Compute compute) {
  const auto model = load_gpt2_folder(folder, {.compute = compute});
  const Loss loss = forward(*model, read_batch(folder));
  std::vector<at::Tensor> leaves;
  for (const auto& [name, tensor] : model->parameters()) leaves.push_back(tensor);
  const auto gradients = torch::autograd::grad({loss.sum}, leaves);
  NamedParameters named;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    named.push_back({model->parameters()[i].name, gradients[i] / loss.weight});
  named = to_hugging_face(named);
  named.push_back({"loss", mean_of(loss)});
  write_safetensors(folder / "ours.safetensors", named);
}

void export_model(const std::filesystem::path& folder, Compute compute) {
  Gpt2 model({.layers = 3,
              .heads = 2,
              .width = 32,
              .context = 24,
              .vocab = 300,
              .dropout = 0,
              .compute = compute,
              .seed = 21});
  save_gpt2_folder(folder, model);
  const Loss loss = forward(model, read_batch(folder));
  write_safetensors(folder / "ours.safetensors", {{"loss", mean_of(loss)}});
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3 || (arguments[0] != "gradients" && arguments[0] != "export"))
    throw usage_error("gpt2_golden", "gradients|export FOLDER COMPUTE", "something else",
                      "gpt2_golden.py");
  const Compute compute = compute_of(arguments[2]);
  arguments[0] == "export" ? export_model(arguments[1], compute)
                           : write_gradients(arguments[1], compute);
}

}  // namespace
}  // namespace accrue::models

int main(int argc, char** argv) {
  try {
    accrue::models::run({argv + 1, argv + argc});
    return 0;
  } catch (const accrue::Error& error) {
    std::cerr << "error: " << error.what() << '\n';
    return error.exit_code();
  }
}
