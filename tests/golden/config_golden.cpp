// The C++ half of config_golden.py:
//   config_golden loss FOLDER   reads FOLDER/batch.safetensors and the model in FOLDER, of any kind
//   that its config.json may say, and writes FOLDER/ours.safetensors and FOLDER/left_out.json
#include <nlohmann/json.hpp>

#include "accrue/models/bert_io.h"
#include "accrue/models/gpt2_io.h"
#include "accrue/models/llama_io.h"
#include "core/atomic_file.h"
#include "language_golden.h"
#include "support/requests.h"

namespace accrue::models {
namespace {

template <class Model>
void write_results(const std::filesystem::path& folder, Model& model) {
  write_loss(folder, model);
  const nlohmann::json left_out(tensors_left_out(folder, model));
  write_file_atomically(folder / "left_out.json", left_out.dump());
}

std::string type_in(const std::filesystem::path& folder) {
  const auto config =
      nlohmann::json::parse(read_file(folder / "config.json"), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || !config.contains("model_type") || !config["model_type"].is_string())
    return {};
  return config["model_type"].get<std::string>();
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2 || arguments[0] != "loss")
    throw usage_error("config_golden", "loss FOLDER", "something else", "config_golden.py");
  const std::filesystem::path folder = arguments[1];
  const std::string type = type_in(folder);
  if (type == "gpt2")
    write_results(folder, *load_gpt2_folder(folder, {.compute = Compute::fp64}));
  else if (type == "bert")
    write_results(folder, *load_bert_folder(folder, {.compute = Compute::fp64}));
  else
    write_results(folder, *load_llama_folder(folder, {.compute = Compute::fp64}));
}

}  // namespace
}  // namespace accrue::models

int main(int argc, char** argv) {
  return accrue::testing::run_requests(argc, argv, accrue::models::run);
}
