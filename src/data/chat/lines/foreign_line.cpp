#include "data/chat/lines/foreign_line.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "data/chat/conversation/chat_variables.h"
#include "data/json/line_json.h"

namespace accrue::data {
namespace {

using ForeignJson = nlohmann::ordered_json;
/// The result for a line or a message, or the problem in it.
using JsonOrProblem = std::variant<ForeignJson, LineProblem>;

constexpr const char* calls_tools = "function_call";

struct RoleName {
  std::string_view from;
  const char* role;
};

constexpr std::array<RoleName, 8> role_names{{{"human", "user"},
                                              {"user", "user"},
                                              {"gpt", "assistant"},
                                              {"assistant", "assistant"},
                                              {"system", "system"},
                                              {"tool", "tool"},
                                              {"observation", "tool"},
                                              {calls_tools, "assistant"}}};

/// Empty if no role has that name.
std::string_view role_of(const std::string& from) {
  const auto known = std::ranges::find(role_names, from, &RoleName::from);
  return known == role_names.end() ? std::string_view() : known->role;
}

LineProblem no_conversation(std::string received) {
  return {R"("conversations" as a list of messages with "from" and "value")", std::move(received),
          R"(lines like {"conversations": [{"from": "human", "value": "..."}, )"
          R"({"from": "gpt", "value": "..."}]})"};
}

LineProblem no_alpaca(std::string received) {
  return {R"("instruction" and "output" as texts, and perhaps "input", "system" and "history")",
          std::move(received),
          R"(lines like {"instruction": "...", "input": "", "output": "..."})"};
}

bool is_given(const ForeignJson& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && !found->is_null() && *found != "" && *found != ForeignJson::array();
}

/// "system is a number": for a key that must be a text.
std::string type_in_words(const ForeignJson& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end()) return "no \"" + std::string(key) + '"';
  return '"' + std::string(key) + "\" of type " + found->type_name();
}

bool is_text_at(const ForeignJson& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string();
}

/// The calls in a text as JSON: an object with a name and arguments, or a list of such.
JsonOrProblem tool_calls_of(const std::string& text) {
  LineJson calls = read_inner_json(text);
  const LineProblem problem =
      no_conversation(R"("function_call" whose "value" is not JSON with "name" and "arguments")");
  if (calls.problem) return problem;
  if (!calls.value.is_array()) calls.value = ForeignJson::array({std::move(calls.value)});
  ForeignJson tool_calls = ForeignJson::array();
  for (ForeignJson& call : calls.value) {
    if (!call.is_object() || !is_text_at(call, "name") || !call.contains("arguments"))
      return problem;
    tool_calls.push_back({{"type", "function"}, {"function", std::move(call)}});
  }
  return tool_calls;
}

/// A message of ShareGPT's converted to "role" and "content".
JsonOrProblem message_of_sharegpt(ForeignJson& stated) {
  const auto refuse = [](std::string received) { return no_conversation(std::move(received)); };
  if (!stated.is_object()) return refuse(std::string("a message of type ") + stated.type_name());
  if (stated.contains("from") == stated.contains("role"))
    return refuse(stated.contains("from") ? R"(a message with "from" and "role")"
                                          : R"(a message without "from")");
  if (stated.contains("value") && stated.contains("content"))
    return refuse(R"(a message with "value" and "content")");
  if (stated.contains("from") && !stated.contains("value") && !stated.contains("content"))
    return refuse(R"(a message without "value")");
  const char* const name_key = stated.contains("from") ? "from" : "role";
  if (!is_text_at(stated, name_key)) return refuse(type_in_words(stated, name_key));
  const std::string name = stated[name_key].get<std::string>();
  std::string_view role = role_of(name);
  if (role.empty() && name_key == std::string_view("from"))
    return LineProblem{
        R"("from" as human, user, gpt, assistant, system, tool, observation or function_call)",
        '"' + shortened(name) + '"', "one of these names for the speaker"};
  if (name == calls_tools && stated.contains("tool_calls"))
    return refuse(R"("function_call" beside "tool_calls")");
  ForeignJson message{{"role", role.empty() ? name : std::string(role)}};
  for (auto&& [key, value] : stated.items()) {
    if (key == "from" || key == "role") continue;
    if (key != "value" && key != "content") {
      message[key] = std::move(value);
    } else if (name != calls_tools) {
      message["content"] = std::move(value);
    } else {
      if (!value.is_string()) return refuse(R"("function_call" whose "value" is no text)");
      JsonOrProblem calls = tool_calls_of(value.get_ref<const std::string&>());
      if (std::holds_alternative<LineProblem>(calls)) return calls;
      message["tool_calls"] = std::get<ForeignJson>(std::move(calls));
    }
  }
  return message;
}

/// The messages of a line, after its "system" message.
JsonOrProblem behind_system(const ForeignJson& line, ForeignJson messages) {
  if (!is_given(line, "system")) return messages;
  if (!is_text_at(line, "system")) return no_conversation(type_in_words(line, "system"));
  if (!messages.empty() && messages.front().value("role", ForeignJson()) == "system")
    return no_conversation(R"("system" beside a first message that is the system's)");
  ForeignJson all = ForeignJson::array();
  all.push_back(chat_message("system", line["system"]));
  for (ForeignJson& message : messages) all.push_back(std::move(message));
  return all;
}

JsonOrProblem messages_of_sharegpt(ForeignJson& line) {
  ForeignJson& stated = line["conversations"];
  if (!stated.is_array()) return no_conversation(type_in_words(line, "conversations"));
  ForeignJson messages = ForeignJson::array();
  for (ForeignJson& one : stated) {
    JsonOrProblem message = message_of_sharegpt(one);
    if (std::holds_alternative<LineProblem>(message)) return message;
    messages.push_back(std::get<ForeignJson>(std::move(message)));
  }
  return behind_system(line, std::move(messages));
}

/// Adds the pairs of "history": alternate messages of the user and the assistant.
JsonOrProblem messages_of_history(const ForeignJson& line) {
  ForeignJson messages = ForeignJson::array();
  if (!is_given(line, "history")) return messages;
  const ForeignJson& history = line["history"];
  if (!history.is_array()) return no_alpaca(type_in_words(line, "history"));
  for (const ForeignJson& turn : history) {
    const bool is_pair =
        turn.is_array() && turn.size() == 2 && turn[0].is_string() && turn[1].is_string();
    if (!is_pair) return no_alpaca(R"("history" with an element that is no pair of texts)");
    messages.push_back(chat_message("user", turn[0]));
    messages.push_back(chat_message("assistant", turn[1]));
  }
  return messages;
}

JsonOrProblem messages_of_alpaca(const ForeignJson& line) {
  for (const char* const key : {"instruction", "output"})
    if (!is_text_at(line, key)) return no_alpaca(type_in_words(line, key));
  if (is_given(line, "input") && !is_text_at(line, "input"))
    return no_alpaca(type_in_words(line, "input"));
  JsonOrProblem before = messages_of_history(line);
  if (std::holds_alternative<LineProblem>(before)) return before;
  std::string said;
  for (const char* const key : {"instruction", "input"})
    if (is_given(line, key))
      said += (said.empty() ? "" : "\n") + line[key].get_ref<const std::string&>();
  ForeignJson messages = std::get<ForeignJson>(std::move(before));
  messages.push_back(chat_message("user", std::move(said)));
  messages.push_back(chat_message("assistant", line["output"]));
  return behind_system(line, std::move(messages));
}

/// `line` with `messages` in place of the keys from which they were made.
ForeignLine replaced(ForeignJson& line, std::initializer_list<std::string_view> keys, LineForm form,
                     JsonOrProblem messages) {
  ForeignLine result{.line = nullptr, .form = form, .problem = std::nullopt};
  if (auto* const problem = std::get_if<LineProblem>(&messages)) {
    result.problem = std::move(*problem);
    return result;
  }
  result.line = ForeignJson{{"messages", std::get<ForeignJson>(std::move(messages))}};
  for (auto&& [key, value] : line.items())
    if (std::ranges::find(keys, key) == keys.end()) result.line[key] = std::move(value);
  return result;
}

}  // namespace

ForeignLine with_messages(ForeignJson line) {
  const bool is_sharegpt = is_sharegpt_line(line), is_alpaca = is_alpaca_line(line);
  if (line.contains("messages") + is_sharegpt + is_alpaca > 1)
    return {
        .line = nullptr,
        .form = LineForm::own,
        .problem = LineProblem{R"("messages", or "conversations", or "instruction" and "output")",
                               "more than one of these", "leaving the others out"}};
  if (is_sharegpt) {
    JsonOrProblem messages = messages_of_sharegpt(line);
    return replaced(line, {"conversations", "system"}, LineForm::sharegpt, std::move(messages));
  }
  if (is_alpaca) {
    JsonOrProblem messages = messages_of_alpaca(line);
    return replaced(line, {"instruction", "input", "output", "system", "history"}, LineForm::alpaca,
                    std::move(messages));
  }
  return {.line = std::move(line), .form = LineForm::own, .problem = std::nullopt};
}

}  // namespace accrue::data
