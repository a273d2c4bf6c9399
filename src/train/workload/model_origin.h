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
  std::filesystem::path checkpoint;  ///< its folder: the newest, or the one in `model.from`
};

/// The run if `from` is a run folder, a checkpoint's folder in one, or a link to either; none
/// for everything else. Throws a usage Error if the run has no checkpoint, or the checkpoint no
/// run.
std::optional<RunOrigin> run_origin(const std::string& from);

/// The config with a checkpoint's shape, with its adapters and the format of their base, if it has
/// any.
Config with_shape_of(const VerifiedCheckpoint& checkpoint, Config config);

/// Loads the checkpoint's model, verified; `config` gets its shape, except for a language model's
/// shorter context, and its adapters. Adds the decisions to `remarks`. Throws a usage Error if
/// config and run have different kinds or normalisations, if both have adapters, if the run has
/// only the tensors of a TorchScript module, or if the checkpoint is damaged. It needs no claim:
/// other processes may continue the run.
std::unique_ptr<models::Model> load_from_run(Config& config, const RunOrigin& origin,
                                             std::vector<std::string>& remarks);

/// Whose weights training starts from, and how many, without new adapters, for people.
std::string start_in_words(const std::string& from, const models::Model& model);

/// Throws a usage Error, with all that model.from may be, if `from` is neither a Hugging Face
/// folder nor a GGUF file, or is a GGUF file of another kind (gpt2 or llama) than `kind`.
void expect_model_files(const std::string& from, ModelKind kind);

/// Adds to `remarks` that a language model of `positions` has a shorter context, if it has.
void note_shorter_context(ModelKind kind, std::int64_t positions, std::int64_t context,
                          std::vector<std::string>& remarks);

}  // namespace accrue::train
