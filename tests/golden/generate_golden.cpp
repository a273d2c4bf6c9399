// The C++ half of generate_golden.py:
//   generate_golden continue FOLDER fp32|fp64|bf16: loads the model in FOLDER and the prompt in
//     FOLDER/request.safetensors (ids, tokens, options), writes FOLDER/ours.safetensors: all ids
//   generate_golden choices FOLDER: reads logits, ids, given, most and options there, writes the
//     possible next tokens: ids and probabilities
// Options are temperature, top_k, top_p and repetition_penalty; rules and end tokens are those of
// FOLDER/generation_config.json, with that penalty.
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "accrue/models/gpt2_io.h"
#include "accrue/models/llama_io.h"
#include "language_golden.h"
#include "models/files/config/generation_config.h"
#include "models/generation/generate.h"
#include "support/requests.h"

namespace accrue::models {
namespace {

struct Request {
  std::vector<std::int64_t> ids;
  std::int64_t tokens = 0, given = 0, most = std::numeric_limits<std::int64_t>::max();
  SamplingOptions options;
  std::vector<std::int64_t> ends;
  at::Tensor logits;
};

GenerationConfig config_in(const std::filesystem::path& folder) {
  std::error_code unreadable;
  return std::filesystem::exists(folder / kGenerationConfig, unreadable)
             ? read_generation_config(folder)
             : GenerationConfig{};
}

Request read_request(const std::filesystem::path& folder) {
  Request request;
  double penalty = 1;
  for (const auto& [name, tensor] : read_safetensors(folder / "request.safetensors").tensors) {
    if (name == "ids")
      request.ids.assign(tensor.const_data_ptr<std::int64_t>(),
                         tensor.const_data_ptr<std::int64_t>() + tensor.numel());
    if (name == "tokens") request.tokens = tensor.item<std::int64_t>();
    if (name == "given") request.given = tensor.item<std::int64_t>();
    if (name == "most") request.most = tensor.item<std::int64_t>();
    if (name == "logits") request.logits = tensor;
    if (name == "options")
      request.options = {.temperature = tensor[0].item<double>(),
                         .top_k = tensor[1].item<std::int64_t>(),
                         .top_p = tensor[2].item<double>()};
    if (name == "options") penalty = tensor[3].item<double>();
  }
  GenerationConfig config = config_in(folder);
  request.options.rules = std::move(config.rules);
  request.ends = std::move(config.end_tokens);
  if (penalty != 1) request.options.rules.repetition_penalty = penalty;
  return request;
}

at::Tensor as_tensor(const std::vector<std::int64_t>& ids) { return at::tensor(ids); }

std::unique_ptr<LanguageModel> load(const std::filesystem::path& folder, Compute compute) {
  std::ifstream file(folder / "config.json");
  if (nlohmann::json::parse(file)["model_type"] == "gpt2")
    return load_gpt2_folder(folder, {.compute = compute});
  return load_llama_folder(folder, {.compute = compute});
}

void write_continued(const std::filesystem::path& folder, Compute compute) {
  const Request request = read_request(folder);
  const auto model = load(folder, compute);
  const std::vector<std::int64_t> ids = generate(*model, request.ids,
                                                 {.max_tokens = request.tokens,
                                                  .temperature = 0,
                                                  .end_tokens = request.ends,
                                                  .rules = request.options.rules});
  write_safetensors(folder / "ours.safetensors", {{"ids", as_tensor(ids)}});
}

void write_choices(const std::filesystem::path& folder) {
  const Request request = read_request(folder);
  std::vector<std::int64_t> ids;
  std::vector<double> probabilities;
  const OpenText text{
      .tokens = request.ids, .given = request.given, .most = request.most, .ends = request.ends};
  for (const Choice& choice : choices(request.logits, text, request.options)) {
    ids.push_back(choice.id);
    probabilities.push_back(choice.probability);
  }
  write_safetensors(folder / "ours.safetensors",
                    {{"ids", as_tensor(ids)}, {"probabilities", at::tensor(probabilities)}});
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 3 && arguments[0] == "continue")
    return write_continued(arguments[1], compute_of(arguments[2]));
  if (arguments.size() == 2 && arguments[0] == "choices") return write_choices(arguments[1]);
  throw usage_error("generate_golden", "continue FOLDER COMPUTE or choices FOLDER",
                    "something else", "generate_golden.py");
}

}  // namespace
}  // namespace accrue::models

int main(int argc, char** argv) {
  return accrue::testing::run_requests(argc, argv, accrue::models::run);
}
