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

/// The folder of a run: config.toml, run.json, metrics.jsonl, tb/, checkpoints/step-00000010/
/// (docs/design.md, section 5).
class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path config_file() const { return root_ / "config.toml"; }
  std::filesystem::path run_file() const { return root_ / "run.json"; }
  std::filesystem::path metrics_file() const { return root_ / "metrics.jsonl"; }
  std::filesystem::path tensorboard_folder() const { return root_ / "tb"; }
  /// The files of the tokenizer of the run's text; none for bytes.
  std::filesystem::path tokenizer_folder() const { return root_ / "tokenizer"; }
  std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  std::filesystem::path checkpoint(std::int64_t step) const;

  /// Whether a run was started here, or a file exists where a run would write one.
  bool holds_run() const;
  /// The run's initial config. Throws a usage Error if this is not a run directory.
  Config config() const;
  /// Steps of the checkpoints whose files all exist with the right lengths, ascending.
  std::vector<std::int64_t> checkpoint_steps() const;

 private:
  std::filesystem::path root_;
};

/// The model of a run at a checkpoint, with information from both.
struct TrainedModel {
  Config config;  ///< the run's, with the checkpoint's shape and class names
  std::filesystem::path checkpoint;
  std::int64_t step = 0;
  /// text, tokens, jsonl, chat or images, as detected from the data, with the tokenizer of the text
  /// if there was one ("text, tokenizer 0123456789abcdef").
  std::string data_format;
  /// The tokenizer.json for the run's text; empty if there is none.
  std::filesystem::path tokenizer;
  std::unique_ptr<models::Model> model;
};

/// Whether the tokens of a run without a tokenizer are bytes of text, for data of this format
/// (TrainedModel::data_format) and a model of this shape, so that the model reads and writes
/// text.
bool trained_on_bytes(const std::string& data_format, const ModelConfig& model);

/// Which TorchScript module of a run folder may be loaded: its code is run.
enum class ModuleTrust {
  recorded,  ///< the one whose digest is in the run's run.json
  any,       ///< the one in the folder, whatever it is: the user trusts it (--trust-module)
};

/// Loads a checkpoint (by default the newest), with products in the precision of training or in
/// another one. Throws a usage Error if the step is missing (listing the existing ones), a file or
/// tensor was changed after it was written (naming it), or the module is not `trusted`; none of its
/// code has run then.
TrainedModel load_trained_model(const RunDirectory& run, std::optional<std::int64_t> step,
                                std::optional<models::Compute> compute = {},
                                ModuleTrust trusted = ModuleTrust::recorded);
/// Loads only the checkpoint's model.
std::unique_ptr<models::Model> load_model(const RunDirectory& run, std::optional<std::int64_t> step,
                                          ModuleTrust trusted = ModuleTrust::recorded);

/// The name of class `index`; its number if the run has no names (of earlier versions).
std::string class_name(const ModelConfig& model, std::int64_t index);

/// The checkpoint folder that `load_model` reads.
std::filesystem::path find_checkpoint(const RunDirectory& run, std::optional<std::int64_t> step);

}  // namespace accrue::train
