#include "data/chat/lines/line_setting.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "accrue/core/error.h"
#include "data/json/large_integer.h"
#include "data/json/line_json.h"

namespace accrue::data {
namespace {

using LineField = nlohmann::ordered_json;

constexpr const char* line_of_conversation = "read a conversation";

[[noreturn]] void refuse_tools(const std::string& received) {
  throw usage_error(line_of_conversation, "a list of tools", received,
                    R"("tools": [{"type": "function", "function": {"name": "...", "parameters": )"
                    R"({"type": "object", "properties": {}}}}], or none)");
}

/// Tables with a single column type have tools as text.
LineField tools_of_text(const std::string& text) {
  LineJson read = read_inner_json(text);
  if (read.problem) refuse_tools("a text that is none: " + read.problem->received);
  return std::move(read.value);
}

LineField tools_of(const LineField& line) {
  const auto stated = line.find("tools");
  if (stated == line.end()) return nullptr;
  const bool is_text = stated->is_string();
  LineField tools = is_text ? tools_of_text(stated->get_ref<const std::string&>()) : *stated;
  if (tools.is_null()) return tools;
  const std::string place = is_text ? "a text of JSON that is of type " : "a value of type ";
  if (!tools.is_array()) refuse_tools(place + type_of(tools));
  const auto other = std::find_if(tools.begin(), tools.end(),
                                  [](const LineField& tool) { return !tool.is_object(); });
  if (other != tools.end()) refuse_tools("a list with one of type " + type_of(*other));
  return tools;
}

/// Arguments of apply_chat_template() do not reach a template, or are stated differently here.
constexpr std::array names_of_caller{"messages",
                                     "conversation",
                                     "conversations",
                                     "tools",
                                     "documents",
                                     "chat_template",
                                     "tokenize",
                                     "add_generation_prompt",
                                     "continue_final_message",
                                     "padding",
                                     "truncation",
                                     "max_length",
                                     "return_tensors",
                                     "return_dict",
                                     "return_assistant_tokens_mask",
                                     "tokenizer_kwargs",
                                     "sanitize_control_tokens"};

void add_variables(const LineField& line, LineField& variables) {
  const auto stated = line.find("chat_template_kwargs");
  if (stated == line.end() || stated->is_null()) return;
  const auto refuse = [](const std::string& received) {
    throw usage_error(line_of_conversation,
                      "\"chat_template_kwargs\" as an object of a template's variables", received,
                      R"({"enable_thinking": false}, or none)");
  };
  if (!stated->is_object()) refuse("a value of type " + std::string(stated->type_name()));
  for (const auto& [name, value] : stated->items()) {
    if (std::find(names_of_caller.begin(), names_of_caller.end(), name) != names_of_caller.end())
      refuse('"' + name + "\" in it");
    variables[name] = value;
  }
}

}  // namespace

ChatSetting setting_of_line(const ChatSetting& setting, const LineField& line) {
  ChatSetting made{.tools = tools_of(line), .variables = setting.variables, .now = setting.now};
  add_variables(line, made.variables);
  return made;
}

}  // namespace accrue::data
