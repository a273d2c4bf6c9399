#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/models/model.h"
#include "accrue/train/run_directory.h"

namespace accrue::train {

class VerifiedCheckpoint;

/// A run that a model starts from.
struct RunOrigin {
  RunDirectory run;
  std::filesystem::path checkpoint;  ///< its folder: the newest, or the one that `model.from` names
};

/// The run where `from` is a run folder, a checkpoint's folder in one, or a link to either; none
/// for everything else. Throws a usage Error if the run has no checkpoint, or the checkpoint no
/// run.
std::optional<RunOrigin> run_origin(const std::string& from);

/// The config with a checkpoint's shape, and with its own adapters, and what holds their base,
/// if it has any.
Config with_shape_of(const VerifiedCheckpoint& checkpoint, Config config);

/// Loads the checkpoint's model, verified; `config` gets its shape, but for a language
/// model's shorter context, and its adapters. Adds to `remarks` what was decided. Throws a usage
/// Error if config and run have different kinds or normalisations, or both have adapters, where
/// the run has only the tensors of a TorchScript module, or where the checkpoint is not as it was
/// written. It needs no claim: other processes may go on with the run.
std::unique_ptr<models::Model> load_from_run(Config& config, const RunOrigin& origin,
                                             std::vector<std::string>& remarks);

/// Says whose weights training starts from, and how many, new adapters apart, for people.
std::string start_in_words(const std::string& from, const models::Model& model);

/// Throws a usage Error, with all that model.from may be, where `from` is neither a Hugging Face
/// folder nor a GGUF file, or is a GGUF file and `kind` not what that holds (gpt2 or llama).
void expect_model_files(const std::string& from, ModelKind kind);

/// Adds to `remarks` that a language model of `positions` has a shorter context, if it has.
void note_shorter_context(ModelKind kind, std::int64_t positions, std::int64_t context,
                          std::vector<std::string>& remarks);

}  // namespace accrue::train
