#pragma once

#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/chat/chat_template.h"
#include "data/chat/chat_templates.h"

namespace accrue::data {

/// Which of a tokenizer's templates a conversation takes: one with tools the one named "tool_use",
/// if there is one, and every other the one named "default". A template is parsed when it is
/// first wanted: one that this version does not know matters to nobody who does not use it. Safe to
/// use from several threads.
class TemplateChoice {
 public:
  /// At least one. Throws a usage Error, its operation being `what`, where it is the only one and
  /// cannot be parsed.
  TemplateChoice(ChatTemplates templates, std::string what);

  /// The template of a conversation with these tools: null are none, and an empty list is a list,
  /// as transformers has it. Throws a usage Error if there is none, or it cannot be parsed.
  ChatTemplate for_tools(const nlohmann::ordered_json& tools) const;

 private:
  ChatTemplate named(const std::string& name) const;

  ChatTemplates templates_;
  std::string what_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, ChatTemplate> parsed_;
};

}  // namespace accrue::data
