#pragma once

#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/chat/format/chat_templates.h"
#include "data/chat/template/chat_template.h"

namespace accrue::data {

/// Chooses the template of a conversation: with tools the one named "tool_use", if there is
/// one, otherwise the one named "default". A template is parsed when it is first used: one that
/// this version does not support does no harm while it is not used. Safe to use from several
/// threads.
class TemplateChoice {
 public:
  /// At least one. Throws a usage Error of the operation `what` if it is the only one and cannot be
  /// parsed.
  TemplateChoice(ChatTemplates templates, std::string what);

  /// The template of a conversation with these tools: null means none, and an empty list is a list,
  /// as in transformers. Throws a usage Error if there is none, or it cannot be parsed.
  ChatTemplate for_tools(const nlohmann::ordered_json& tools) const;

 private:
  ChatTemplate named(const std::string& name) const;

  ChatTemplates templates_;
  std::string what_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, ChatTemplate> parsed_;
};

}  // namespace accrue::data
