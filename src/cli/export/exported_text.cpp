#include "cli/export/exported_text.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "cli/export/carried_files.h"
#include "cli/text/trained_text.h"
#include "core/atomic_file.h"
#include "core/printable.h"
#include "core/words.h"
#include "data/chat/format/chat_templates.h"
#include "data/tokenizer/folder/tokenizer_files.h"
#include "models/files/config/generation_config.h"

namespace accrue::cli {
namespace {

namespace fs = std::filesystem;
using TextJson = nlohmann::ordered_json;

constexpr const char* exporting = "export";

void write_json(const fs::path& file, const TextJson& value) {
  write_file_atomically(file, value.dump(2, ' ', false, TextJson::error_handler_t::replace) + '\n');
}

/// The object in a file; an empty one if there is no such file, or it is not an object.
TextJson object_in(const fs::path& file) {
  std::error_code unreadable;
  if (!fs::exists(file, unreadable)) return TextJson::object();
  return models::parsed_config(read_file(file)).value_or(TextJson::object());
}

/// The templates of a tokenizer; none if this version cannot read them.
std::map<std::string, std::string> templates_of(const fs::path& tokenizer_file) {
  try {
    return data::read_chat_templates(tokenizer_file, exporting).texts;
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::usage) throw;
    return {};
  }
}

/// The tokens of the tokenizer's folder; none if this version cannot read it.
std::optional<data::FolderTokens> tokens_if_readable(const fs::path& tokenizer_file) {
  try {
    return data::read_folder_tokens(tokenizer_file, exporting);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::usage) throw;
    return std::nullopt;
  }
}

bool are_same(const data::FolderTokens& a, const data::FolderTokens& b) {
  return a.bos == b.bos && a.eos == b.eos && a.pad == b.pad && a.unk == b.unk &&
         a.splits_special_tokens == b.splits_special_tokens && a.tokenizer == b.tokenizer;
}

bool reads_as(const fs::path& folder, const data::FolderTokens& tokens) {
  const auto found = tokens_if_readable(folder / data::kTokenizerFile);
  return found && are_same(*found, tokens);
}

void settle_tokenizer(const fs::path& folder, const data::FolderTokens& tokens) {
  if (reads_as(folder, tokens)) return;
  TextJson settings = tokens.settings;
  settings["tokenizer_class"] = "PreTrainedTokenizerFast";
  settings.erase("auto_map");
  write_json(folder / data::kTokenizerSettings, settings);
  if (reads_as(folder, tokens)) return;
  write_file_atomically(folder / data::kTokenizerFile, tokens.tokenizer.dump() + '\n');
  for (const char* merged : {data::kSpecialTokensMap, data::kAddedTokens})
    fs::remove(folder / merged);
}

/// A tokenizer without an end of text gets the model's first. Templates that write an end of text
/// wrote none in training, and continue like that.
void name_end(const fs::path& folder, const std::string& end,
              const std::map<std::string, std::string>& templates) {
  for (const auto& [name, text] : templates)
    if (text.find("eos_token") != text.npos) return;
  const fs::path file = folder / data::kTokenizerSettings;
  TextJson settings = object_in(file);
  settings["eos_token"] = end;
  write_json(file, settings);
}

/// Ids of the special tokens that the tokenizer and the run's initial model state.
models::SpecialTokens special_tokens_of(const Continuation& continuation,
                                        const std::optional<data::FolderTokens>& folder,
                                        std::int64_t vocab) {
  const models::SpecialTokens stated = models::stated_special_tokens(continuation.generation);
  const auto id_of = [&](const std::optional<std::string>& text,
                         std::optional<std::int64_t> otherwise) {
    if (text && continuation.tokenizer)
      if (const auto id = continuation.tokenizer->id_of(*text)) otherwise = id;
    // Larger ids would be outside the embedding.
    return otherwise && *otherwise < vocab ? otherwise : std::nullopt;
  };
  return {.begin = id_of(folder ? folder->bos : std::nullopt, stated.begin),
          .pad = id_of(folder ? folder->pad : std::nullopt, stated.pad),
          .ends = continuation.ends};
}

/// In config.json. A gpt2's is made from its shape, and has the end of GPT-2's tokenizer if the
/// vocabulary is large enough.
void state_in_config(const fs::path& folder, const models::SpecialTokens& tokens,
                     bool is_made_of_shape) {
  const fs::path file = folder / data::kModelConfig;
  const TextJson written = object_in(file);
  if (written.empty()) return;  // adapters have none
  TextJson config = written;
  if (is_made_of_shape)
    for (const char* key : {"bos_token_id", "eos_token_id"}) config[key] = nullptr;
  config = models::with_special_tokens(std::move(config), tokens);
  if (config != written) write_json(file, config);
}

/// Whether the run knows its model's kind of text: a run on files of token ids from scratch does
/// not.
bool knows_its_text(const train::TrainedModel& trained, const Continuation& continuation) {
  return trained_on_bytes(trained) || continuation.tokenizer || !trained.config.model.from.empty();
}

std::string text_of_end(const Continuation& continuation, std::int64_t end) {
  return continuation.tokenizer && continuation.tokenizer->has(end)
             ? continuation.tokenizer->decode({&end, 1})
             : std::string();
}

/// Prints the ends that the run's initial model does not state.
void note_ends(const train::TrainedModel& trained, const Continuation& continuation) {
  if (continuation.generation.empty()) return;
  const std::vector<std::int64_t> before =
      models::stated_special_tokens(continuation.generation).ends;
  std::vector<std::string> added;
  for (const std::int64_t end : continuation.ends)
    if (std::ranges::find(before, end) == before.end())
      added.push_back(printable_line(text_of_end(continuation, end)) + " (" + std::to_string(end) +
                      ')');
  if (!added.empty())
    std::cerr << "note: texts of the export end before " << listed(added, "and") << ", too, unlike "
              << printable_line(Continuation::name_of_generation(trained)) << '\n';
}

/// States the first of `ends` if the tokenizer names none.
void settle_end(const fs::path& folder, const Continuation& continuation,
                const std::optional<data::FolderTokens>& tokens,
                const std::map<std::string, std::string>& templates) {
  if (!tokens || tokens->eos || continuation.ends.empty()) return;
  if (const std::string end = text_of_end(continuation, continuation.ends.front()); !end.empty())
    name_end(folder, end, templates);
}

}  // namespace

std::optional<data::FolderTokens> write_tokenizer(const fs::path& folder,
                                                  const fs::path& tokenizer_file) {
  copy_tokenizer(tokenizer_file, folder);
  std::optional<data::FolderTokens> tokens = tokens_if_readable(tokenizer_file);
  if (tokens) settle_tokenizer(folder, *tokens);
  return tokens;
}

ExportedText write_text_files(const fs::path& folder, const train::TrainedModel& trained,
                              const Continuation& continuation,
                              const models::LanguageModel& model) {
  ExportedText written{.is_bytes = trained_on_bytes(trained),
                       .has_tokenizer = !continuation.tokenizer_file.empty()};
  std::optional<data::FolderTokens> tokens;
  if (written.has_tokenizer) {
    tokens = write_tokenizer(folder, continuation.tokenizer_file);
    written.chat_templates = templates_of(continuation.tokenizer_file);
    settle_end(folder, continuation, tokens, written.chat_templates);
  }
  if (continuation.turn_end) written.turn_end = text_of_end(continuation, *continuation.turn_end);
  const models::SpecialTokens special = special_tokens_of(continuation, tokens, model.vocab());
  state_in_config(
      folder, special,
      trained.config.model.kind == train::ModelKind::gpt2 && knows_its_text(trained, continuation));
  const TextJson generation = models::with_special_tokens(continuation.generation, special);
  written.has_generation = !generation.empty();
  if (written.has_generation) write_json(folder / data::kGenerationConfig, generation);
  note_ends(trained, continuation);
  return written;
}

}  // namespace accrue::cli
