// The C++ half of gpt2_golden.py, in both directions:
//   gpt2_golden gradients FOLDER fp32|fp64|bf16: reads FOLDER/batch.safetensors, writes
//     FOLDER/ours.safetensors
//   gpt2_golden export FOLDER fp32|fp64: writes a new model and FOLDER/ours.safetensors
#include "accrue/models/gpt2_io.h"
#include "language_golden.h"
#include "support/requests.h"

namespace accrue::models {
namespace {

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
  write_loss(folder, model);
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3 || (arguments[0] != "gradients" && arguments[0] != "export"))
    throw usage_error("gpt2_golden", "gradients|export FOLDER COMPUTE", "something else",
                      "gpt2_golden.py");
  const std::filesystem::path folder = arguments[1];
  const Compute compute = compute_of(arguments[2]);
  if (arguments[0] == "export") return export_model(folder, compute);
  const auto model = load_gpt2_folder(folder, {.compute = compute});
  write_gradients(folder, *model,
                  [](NamedParameters gradients) { return to_hugging_face(std::move(gradients)); });
}

}  // namespace
}  // namespace accrue::models

int main(int argc, char** argv) {
  return accrue::testing::run_requests(argc, argv, accrue::models::run);
}
