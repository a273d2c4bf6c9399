// The C++ half of llama_golden.py, in both directions:
//   llama_golden gradients FOLDER fp32|fp64|bf16   reads FOLDER/batch.safetensors and the model in
//   FOLDER, writes FOLDER/ours.safetensors
//   llama_golden copy FOLDER fp32|fp64             loads the model in FOLDER, saves it in
//   FOLDER/copy, writes FOLDER/ours.safetensors
//   llama_golden export FOLDER fp32|fp64           writes a model of its own and
//   FOLDER/ours.safetensors
#include "accrue/models/llama_io.h"
#include "language_golden.h"
#include "support/requests.h"

namespace accrue::models {
namespace {

void export_model(const std::filesystem::path& folder, Compute compute) {
  Llama model({.layers = 3,
               .heads = 4,
               .kv_heads = 2,
               .width = 32,
               .ffn_width = 80,
               .context = 24,
               .vocab = 300,
               .compute = compute,
               .seed = 21});
  save_llama_folder(folder, model);
  write_loss(folder, model);
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3)
    throw usage_error("llama_golden", "gradients|copy|export FOLDER COMPUTE", "something else",
                      "llama_golden.py");
  const std::filesystem::path folder = arguments[1];
  const Compute compute = compute_of(arguments[2]);
  if (arguments[0] == "export") return export_model(folder, compute);
  const auto model = load_llama_folder(folder, {.compute = compute});
  if (arguments[0] == "gradients")
    return write_gradients(folder, *model, [](NamedParameters as_they_are) { return as_they_are; });
  save_llama_folder(folder / "copy", *model);
  write_loss(folder, *model);
}

}  // namespace
}  // namespace accrue::models

int main(int argc, char** argv) {
  return accrue::testing::run_requests(argc, argv, accrue::models::run);
}
