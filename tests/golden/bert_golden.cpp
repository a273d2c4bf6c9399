// The C++ half of bert_golden.py:
//   bert_golden gradients FOLDER fp32|fp64|bf16   reads FOLDER/batch.safetensors and the model in
//   FOLDER, writes FOLDER/ours.safetensors
//   bert_golden export FOLDER fp32|fp64           writes a model of its own and
//   FOLDER/ours.safetensors
//   bert_golden masks FOLDER DRAWS                writes FOLDER/masks.safetensors: what the first
//   DRAWS draws of FOLDER/train.jsonl show to a model and ask of it, sample by sample
#include <numeric>

#include "accrue/data/source.h"
#include "accrue/models/bert_io.h"
#include "data/fetch.h"
#include "data/masked_tokens.h"
#include "language_golden.h"
#include "models/files/hub/bert_names.h"
#include "support/requests.h"

namespace accrue::models {
namespace {

void export_model(const std::filesystem::path& folder, Compute compute) {
  Bert model({.layers = 3,
              .heads = 2,
              .width = 32,
              .ffn_width = 48,
              .context = 24,
              .vocab = 300,
              .compute = compute,
              .seed = 21});
  save_bert_folder(folder, model);
  write_loss(folder, model);
}

void write_masks(const std::filesystem::path& folder, std::int64_t draws) {
  constexpr std::int64_t bytes = 256;
  const std::shared_ptr<const data::Source> lines =
      data::open_source({.globs = {(folder / "train.jsonl").string()}, .whole = true}, "masks");
  // The seed is the default of a run.
  const auto masked =
      data::with_masks(lines, {.fraction = 0.3, .mask_token = bytes, .vocab = bytes, .seed = 1337});
  NamedParameters tensors;
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    const std::int64_t sample = draw % masked->size();
    const batch::MicroBatch micro = data::fetch_drawn_as(*masked, std::span(&sample, 1), {draw});
    tensors.push_back({"inputs." + std::to_string(draw), micro.inputs[0]});
    tensors.push_back({"targets." + std::to_string(draw), micro.targets[0]});
  }
  write_safetensors(folder / "masks.safetensors", tensors);
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3)
    throw usage_error("bert_golden", "gradients|export FOLDER COMPUTE or masks FOLDER DRAWS",
                      "something else", "bert_golden.py");
  const std::filesystem::path folder = arguments[1];
  if (arguments[0] == "masks") return write_masks(folder, std::stoll(arguments[2]));
  const Compute compute = compute_of(arguments[2]);
  if (arguments[0] == "export") return export_model(folder, compute);
  const auto model = load_bert_folder(folder, {.compute = compute});
  write_gradients(folder, *model, to_bert_names);
}

}  // namespace
}  // namespace accrue::models

int main(int argc, char** argv) {
  return accrue::testing::run_requests(argc, argv, accrue::models::run);
}
