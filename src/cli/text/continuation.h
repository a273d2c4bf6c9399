#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "accrue/data/tokenizer.h"
#include "accrue/models/language_model.h"
#include "accrue/train/run_directory.h"
#include "data/chat/format/chat_format.h"

namespace accrue::cli {

/// How a run's model continues a text: `accrue sample` uses it, and an export states it, so that
/// other programs do the same.
struct Continuation {
  /// The tokenizer.json of the run's text, or of the initial model of a run on token ids; empty if
  /// there is none.
  std::filesystem::path tokenizer_file;
  /// That file's tokenizer; null if there is none, or a run on token ids has one that this version
  /// cannot read.
  std::shared_ptr<const data::Tokenizer> tokenizer;
  /// generation_config.json of the run's initial model; an empty object if it has none.
  nlohmann::ordered_json generation = nlohmann::ordered_json::object();
  /// The tokenizer's chat templates; null if it has none that can be rendered.
  std::shared_ptr<const data::ChatFormat> chat = {};
  std::optional<std::int64_t> turn_end = {};  ///< data::turn_end()
  /// All tokens before which a text ends: those of the run's initial model, the tokenizer's end of
  /// text, and the end of a turn.
  std::vector<std::int64_t> ends = {};

  /// The name of `generation` in errors and notes.
  static std::string name_of_generation(const train::TrainedModel& trained);
};

/// Throws a usage Error of an operation that begins with `what` if the run's tokenizer has
/// changed.
Continuation continuation_of(const train::RunDirectory& run, const train::TrainedModel& trained,
                             const models::LanguageModel& model, const std::string& what);

}  // namespace accrue::cli
