#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "data/chat/chat_template.h"
#include "data/chat/learned_pieces.h"

namespace accrue::data {

/// How a model's conversations become text.
struct ChatFormat {
  ChatTemplate chat;
  /// Special tokens by their names, and a date that stays, so that a run that goes on another day
  /// has the same text: 26 July 2024, which Llama's own templates fall back on.
  ChatSetting setting;
  std::string fingerprint;  ///< of all that the text depends on besides the messages
};

/// What the files beside a tokenizer.json say: chat_template.jinja, or else "chat_template" of
/// tokenizer_config.json (of several the one named "default"), which also names the special tokens.
/// Throws a usage Error, its operation being `what`, where there is no template, or it is none that
/// this version renders.
std::shared_ptr<const ChatFormat> read_chat_format(const std::filesystem::path& tokenizer_file,
                                                   const std::string& what);

}  // namespace accrue::data
