// The C++ half of adapter_golden.py. FOLDER/base is a model, FOLDER/adapter an adapter of it:
//   adapter_golden gradients FOLDER fp32|fp64|bf16: writes FOLDER/ours.safetensors with the loss of
//     FOLDER/batch.safetensors and the adapter's gradients
//   adapter_golden copy FOLDER fp32|fp64: saves the adapter in FOLDER/copy and the merged model in
//     FOLDER/merged, writes FOLDER/ours.safetensors with the loss
//   adapter_golden new FOLDER lora|dora: puts a new adapter on the base in fp32, saves it in
//     FOLDER/adapter, writes FOLDER/ours.safetensors with the loss
#include <ATen/ATen.h>

#include "accrue/models/adapter_io.h"
#include "accrue/models/gpt2_io.h"
#include "accrue/models/llama_io.h"
#include "language_golden.h"
#include "support/requests.h"

namespace accrue::models {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<LanguageModel> load_base(const fs::path& folder, Compute compute,
                                         const AdapterOptions& adapters) {
  try {
    return load_llama_folder(folder, {.compute = compute, .adapters = adapters});
  } catch (const Error&) {
    return load_gpt2_folder(folder, {.compute = compute, .adapters = adapters});
  }
}

std::unique_ptr<LanguageModel> load(const fs::path& folder, Compute compute) {
  auto model = load_base(folder / "base", compute, read_adapter_options(folder / "adapter"));
  load_adapter_folder(folder / "adapter", *model);
  return model;
}

void save_merged(const fs::path& folder, const LanguageModel& model) {
  if (const auto* gpt2 = dynamic_cast<const Gpt2*>(&model)) save_gpt2_folder(folder, *gpt2);
  if (const auto* llama = dynamic_cast<const Llama*>(&model)) save_llama_folder(folder, *llama);
}

void make_adapter(const fs::path& folder, AdapterKind kind) {
  const auto model =
      load_base(folder / "base", Compute::fp32, {.rank = 3, .alpha = 4, .kind = kind});
  const at::NoGradGuard no_grad;
  for (const NamedParameter& parameter : model->parameters())
    if (parameter.tensor.requires_grad())
      at::Tensor(parameter.tensor).add_(at::randn_like(parameter.tensor), 0.1);
  save_adapter_folder(folder / "adapter", *model, "base");
  const at::AutoGradMode with_grad(true);
  write_loss(folder, *model);
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3)
    throw usage_error("adapter_golden", "gradients|copy|new FOLDER WORD", "something else",
                      "adapter_golden.py");
  const fs::path folder = arguments[1];
  if (arguments[0] == "new") return make_adapter(folder, *adapter_kind_words.find(arguments[2]));
  const auto model = load(folder, compute_of(arguments[2]));
  if (arguments[0] == "gradients")
    return write_gradients(folder, *model, [](NamedParameters as_they_are) { return as_they_are; });
  save_adapter_folder(folder / "copy", *model, "base");
  save_merged(folder / "merged", *model);
  write_loss(folder, *model);
}

}  // namespace
}  // namespace accrue::models

int main(int argc, char** argv) {
  return accrue::testing::run_requests(argc, argv, accrue::models::run);
}
