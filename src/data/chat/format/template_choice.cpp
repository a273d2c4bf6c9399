#include "data/chat/format/template_choice.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "core/words.h"

namespace accrue::data {

TemplateChoice::TemplateChoice(ChatTemplates templates, std::string what)
    : templates_(std::move(templates)), what_(std::move(what)) {
  if (templates_.texts.size() == 1) named(templates_.texts.begin()->first);
}

ChatTemplate TemplateChoice::for_tools(const nlohmann::ordered_json& tools) const {
  const bool wants_tools = !tools.is_null() && templates_.texts.contains("tool_use");
  if (wants_tools) return named("tool_use");
  if (templates_.texts.contains("default")) return named("default");
  std::vector<std::string> names;
  for (const auto& [name, text] : templates_.texts) names.push_back(name);
  throw usage_error(what_,
                    std::string("a chat template named default for conversations ") +
                        (tools.is_null() ? "without" : "with") + " tools",
                    "templates named " + listed(names, "and"),
                    "a chat_template.jinja beside the tokenizer");
}

ChatTemplate TemplateChoice::named(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto known = parsed_.find(name);
  if (known != parsed_.end()) return known->second;
  try {
    return parsed_.emplace(name, ChatTemplate::parse(templates_.texts.at(name), what_))
        .first->second;
  } catch (const Error& error) {
    if (templates_.texts.size() == 1) throw;
    throw usage_error(error.operation(), error.expected(),
                      error.received() + " of the chat template '" + name + "'",
                      error.suggestion());
  }
}

}  // namespace accrue::data
