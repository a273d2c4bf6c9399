#pragma once

#include <memory>
#include <string>

#include "accrue/data/tokenizer.h"
#include "data/chat/conversation/chat_variables.h"
#include "data/chat/format/template_choice.h"

namespace accrue::data {

/// How a model's conversations become text.
struct ChatFormat {
  std::shared_ptr<const TemplateChoice> templates;
  /// Special tokens by their names, and a fixed date, so that a run resumed on another day has the
  /// same text: 26 July 2024, the fallback of Llama's own templates.
  ChatSetting setting;
  std::string fingerprint;  ///< of everything but the messages that the text depends on
};

/// The chat format of a tokenizer's files: its chat templates (read_chat_templates()) and its
/// special tokens (Tokenizer::special_texts()). Throws a usage Error of the operation `what` if
/// there is no template, or the only one cannot be rendered by this version.
std::shared_ptr<const ChatFormat> read_chat_format(const Tokenizer& tokenizer,
                                                   const std::string& what);

}  // namespace accrue::data
