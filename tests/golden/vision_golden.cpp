// The C++ half of vision_golden.py:
//   vision_golden resnet|resnet18|resnet50|vit FOLDER fp32|fp64|bf16
// reads FOLDER/model.safetensors and FOLDER/batch.safetensors and writes FOLDER/ours.safetensors:
// the mean loss, its gradients under the names and in the layout of the model's file, and the
// buffers.
#include <torch/csrc/autograd/autograd.h>

#include <map>

#include "accrue/core/error.h"
#include "accrue/models/resnet.h"
#include "accrue/models/safetensors.h"
#include "accrue/models/vit.h"
#include "support/requests.h"

namespace accrue::models {
namespace {

Compute compute_of(const std::string& name) {
  static const std::map<std::string, Compute> names{
      {"fp32", Compute::fp32}, {"bf16", Compute::bf16}, {"fp64", Compute::fp64}};
  return names.at(name);
}

/// With the shapes that vision_golden.py uses.
std::unique_ptr<Model> make_model(const std::string& kind, Compute compute) {
  if (kind == "resnet")
    return std::make_unique<ResNet>(ResNetOptions{
        .layers = 14, .width = 8, .classes = 7, .image = {3, 12, 12}, .compute = compute});
  if (kind == "resnet18" || kind == "resnet50")
    return std::make_unique<ResNet>(ResNetOptions{.layers = kind == "resnet18" ? 18 : 50,
                                                  .stem = Stem::conv7x7,
                                                  .width = 8,
                                                  .classes = 7,
                                                  .image = {3, 40, 40},
                                                  .compute = compute});
  return std::make_unique<Vit>(VitOptions{.layers = 3,
                                          .heads = 4,
                                          .width = 48,
                                          .patches = 16,
                                          .classes = 7,
                                          .image = {3, 12, 12},
                                          .compute = compute});
}

batch::MicroBatch read_batch(const std::filesystem::path& folder) {
  batch::MicroBatch micro;
  for (const auto& [name, tensor] : read_safetensors(folder / "batch.safetensors").tensors)
    (name == "inputs" ? micro.inputs : micro.targets) = tensor;
  for (std::int64_t i = 0; i < micro.inputs.size(0); ++i) micro.sample_ids.push_back(i);
  return micro;
}

Loss forward(Model& model, const batch::MicroBatch& micro) {
  const ForwardContext context{.training = true, .sample_ids = micro.sample_ids};
  return model.losses().front().forward(run_segments(model, micro, context), micro, context, 1);
}

/// Gradients replace the parameters, so that the model itself puts them into its file's layout.
void become_gradients(Model& model, const Loss& loss) {
  std::vector<at::Tensor> leaves;
  for (const auto& [name, tensor] : model.parameters()) leaves.push_back(tensor);
  const std::vector<at::Tensor> gradients = torch::autograd::grad({loss.sum}, leaves);
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i].copy_(gradients[i] / loss.weight);
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3)
    throw usage_error("vision_golden", "resnet|vit FOLDER COMPUTE", "something else",
                      "vision_golden.py");
  const std::filesystem::path folder = arguments[1];
  const std::unique_ptr<Model> model = make_model(arguments[0], compute_of(arguments[2]));
  const std::filesystem::path weights = folder / "model.safetensors";
  model->load_file_tensors(read_safetensors(weights).tensors, weights.string());
  const Loss loss = forward(*model, read_batch(folder));
  become_gradients(*model, loss);
  NamedParameters tensors = model->file_tensors();
  tensors.push_back({"loss", loss.sum.detach().to(at::kDouble) / loss.weight});
  write_safetensors(folder / "ours.safetensors", tensors);
}

}  // namespace
}  // namespace accrue::models

int main(int argc, char** argv) {
  return accrue::testing::run_requests(argc, argv, accrue::models::run);
}
