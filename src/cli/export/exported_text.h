#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "accrue/train/run_directory.h"
#include "cli/text/continuation.h"
#include "data/tokenizer/folder/folder_tokens.h"

namespace accrue::cli {

/// An export's description of the text that its model reads and writes, for its card.
struct ExportedText {
  bool is_bytes = false;        ///< tokens are bytes, and a byte tokenizer is among the files
  bool has_tokenizer = false;   ///< of the run's text, or of the model a run on ids began with
  bool has_generation = false;  ///< generation_config.json
  std::map<std::string, std::string> chat_templates = {};  ///< by name; "default" is the usual one
  std::string turn_end = {};                               ///< the token after an answer, if known
};

/// Copies a tokenizer.json, and what belongs to it, into a folder that may have a config.json. If
/// transformers would read another tokenizer there, since the class of a tokenizer also depends on
/// the model's kind, the files are changed to state what accrue reads. Returns that; none if this
/// version cannot read the tokenizer.
std::optional<data::FolderTokens> write_tokenizer(const std::filesystem::path& folder,
                                                  const std::filesystem::path& tokenizer_file);

/// Writes into `folder`, where a language model's config.json may be, what its texts need besides
/// the weights: the tokenizer's files, generation_config.json, and in both, and in config.json, the
/// tokens that begin, end and pad a text. With these transformers reads the same ids from a text as
/// the run did, and its generate() stops where `accrue sample` does. Prints on stderr which stated
/// ends were not stated by the run's initial model.
ExportedText write_text_files(const std::filesystem::path& folder,
                              const train::TrainedModel& trained, const Continuation& continuation,
                              const models::LanguageModel& model);

}  // namespace accrue::cli
