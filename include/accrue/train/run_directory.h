#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/models/model.h"
#include "accrue/train/config.h"

namespace accrue::train {

/// A run's folder: config.toml, run.json, metrics.jsonl, tb/, checkpoints/step-00000010/
/// (docs/design.md, section 5).
class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path config_file() const { return root_ / "config.toml"; }
  std::filesystem::path run_file() const { return root_ / "run.json"; }
  std::filesystem::path metrics_file() const { return root_ / "metrics.jsonl"; }
  std::filesystem::path tensorboard_folder() const { return root_ / "tb"; }
  /// The files of the tokenizer that made tokens of the run's text, if it was not bytes.
  std::filesystem::path tokenizer_folder() const { return root_ / "tokenizer"; }
  std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  std::filesystem::path checkpoint(std::int64_t step) const;

  /// Whether a run was started here, or anything stands where one would put its own.
  bool holds_run() const;
  /// The config the run was started with. Throws a usage Error if this is no run directory.
  Config config() const;
  /// Steps of the checkpoints whose files are all there with their lengths, ascending.
  std::vector<std::int64_t> checkpoint_steps() const;

 private:
  std::filesystem::path root_;
};

/// A run's model as of a checkpoint, with what the two tell of it.
struct TrainedModel {
  Config config;  ///< the run's, with the checkpoint's shape and names of classes
  std::filesystem::path checkpoint;
  std::int64_t step = 0;
  /// text, tokens, jsonl, chat or images, as the data turned out to be; with what made tokens of
  /// text where that was a tokenizer ("text, tokenizer 0123456789abcdef").
  std::string data_format;
  /// The tokenizer.json that made tokens of the run's text; empty if none did.
  std::filesystem::path tokenizer;
  std::unique_ptr<models::Model> model;
};

/// Whether the tokens of a run without a tokenizer on data of this format
/// (TrainedModel::data_format) are bytes of text, so that its model of that shape reads and writes
/// text.
bool trained_on_bytes(const std::string& data_format, const ModelConfig& model);

/// Which TorchScript module a run folder may have loaded: the code in it runs.
enum class ModuleTrust {
  recorded,  ///< the one whose digest is in the run's run.json
  any,       ///< whichever the folder names, as whoever asks trusts it (--trust-module)
};

/// Loads a checkpoint (none: the newest), with products in the precision of training or in another
/// one. Throws a usage Error that names the step that is missing and lists those there are, the
/// file and the tensor that is not as it was written, or the module that is not `trusted`; no code
/// of that has run then.
TrainedModel load_trained_model(const RunDirectory& run, std::optional<std::int64_t> step,
                                std::optional<models::Compute> compute = {},
                                ModuleTrust trusted = ModuleTrust::recorded);
/// Loads the checkpoint's model alone.
std::unique_ptr<models::Model> load_model(const RunDirectory& run, std::optional<std::int64_t> step,
                                          ModuleTrust trusted = ModuleTrust::recorded);

/// The name of class `index`; its number if the run has no names (of earlier versions).
std::string class_name(const ModelConfig& model, std::int64_t index);

/// The checkpoint folder that `load_model` reads.
std::filesystem::path find_checkpoint(const RunDirectory& run, std::optional<std::int64_t> step);

}  // namespace accrue::train
