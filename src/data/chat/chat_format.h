#pragma once

#include <memory>
#include <string>

#include "accrue/data/tokenizer.h"
#include "data/chat/chat_variables.h"
#include "data/chat/template_choice.h"

namespace accrue::data {

/// How a model's conversations become text.
struct ChatFormat {
  std::shared_ptr<const TemplateChoice> templates;
  /// Special tokens by their names, and a date that stays, so that a run that goes on another day
  /// has the same text: 26 July 2024, which Llama's own templates fall back on.
  ChatSetting setting;
  std::string fingerprint;  ///< of all that the text depends on besides the messages
};

/// What the files of a tokenizer say: its chat templates (read_chat_templates()) and its special
/// tokens (Tokenizer::special_texts()). Throws a usage Error, its operation being `what`, where
/// there is no template, or the only one is none that this version renders.
std::shared_ptr<const ChatFormat> read_chat_format(const Tokenizer& tokenizer,
                                                   const std::string& what);

}  // namespace accrue::data
