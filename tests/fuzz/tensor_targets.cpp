// Files of tensors, the bookkeeping of a checkpoint, and the stored values of a reference.
#include <algorithm>
#include <cmath>

#include "accrue/models/safetensors.h"
#include "fuzz_targets.h"
#include "scratch.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/manifest.h"
#include "train/workload/reference_bytes.h"

namespace accrue::fuzz {

void fuzz_safetensors(Input input) {
  const std::filesystem::path path = put("model.safetensors", input);
  const models::TensorFile file = models::read_safetensors(path);
  std::size_t bytes = 0;
  for (const NamedParameter& tensor : file.tensors) bytes += tensor.tensor.nbytes();
  expect(bytes <= input.size(), "no tensor is larger than its file");
  const std::filesystem::path copy = scratch("copy.safetensors");
  models::write_safetensors(copy, file.tensors, file.metadata);
  const models::TensorFile again = models::read_safetensors(copy);
  expect(again.tensors.size() == file.tensors.size() && again.metadata == file.metadata,
         "what was read is written and read back");
}

void fuzz_safetensors_index(Input input) {
  const std::filesystem::path index = put("sharded/model.safetensors.index.json", input);
  // Read to the end only if the index names this file as it is.
  const std::filesystem::path shard = scratch("sharded/a");
  if (!std::filesystem::exists(shard)) models::write_safetensors(shard, {{"x", at::ones({2})}});
  const StoredTensors tensors = models::open_sharded_safetensors(index);
  expect(tensors.size() == 1 && tensors.front().name == "x", "no other tensor than what is there");
  tensors.front().read();
}

void fuzz_state(Input input) {
  const std::filesystem::path checkpoint = put("checkpoint/state.json", input).parent_path();
  const train::TrainState state = train::read_checkpoint_state(checkpoint);
  expect(state.micro_batches.planned > 0 && state.micro_batches.micro_batch > 0,
         "an accepted micro-batch has samples");
  expect(state.step >= 0 && state.window >= state.step && state.samples >= 0 && state.tokens >= 0,
         "counts of an accepted state are not negative");
  train::VerifiedCheckpoint(checkpoint, train::VerifiedCheckpoint::Files::none).with_shape({});
}

void fuzz_manifest(Input input) {
  const std::filesystem::path checkpoint = put("checkpoint/manifest.json", input).parent_path();
  const std::optional<train::Manifest> manifest = train::read_manifest(checkpoint);
  expect(manifest.has_value(), "a manifest that is there is read or refused");
  train::write_manifest(checkpoint, *manifest);
  expect(train::read_manifest(checkpoint)->files.size() == manifest->files.size(),
         "what was read is written and read back");
  train::check_lengths(checkpoint, *manifest);
}

/// The first byte is the expected number of pairs.
void fuzz_reference(Input input) {
  if (input.empty()) return;
  const std::int64_t pairs = input[0] & 127;
  const std::string bytes(text_of(input.subspan(1)));
  const auto numbers = train::reference_of_bytes(bytes, pairs);
  if (!numbers) return;
  expect(static_cast<std::int64_t>(numbers->size()) == 2 * pairs, "a pair has two numbers");
  expect(std::all_of(numbers->begin(), numbers->end(), [](double x) { return std::isfinite(x); }),
         "accepted numbers are finite");
  expect(train::reference_to_bytes(*numbers) == bytes, "what was read is written as it was");
}

}  // namespace accrue::fuzz
