#include "data/chat/lines/chat_line.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>

#include "accrue/core/error.h"
#include "data/chat/conversation/answer_pieces.h"
#include "data/chat/conversation/answered_conversation.h"
#include "data/chat/lines/foreign_line.h"
#include "data/chat/lines/line_setting.h"
#include "data/json/line_json.h"
#include "data/text/samples/line_keys.h"
#include "data/text/samples/line_weight.h"

namespace accrue::data {
namespace {

using ChatLineJson = nlohmann::ordered_json;

ChatLine no_chat_line(LineProblem problem) {
  ChatLine line;
  line.problem = std::move(problem);
  return line;
}

LineProblem without_messages(const char* expected, const char* received) {
  return {expected, received,
          R"(lines like {"messages": [{"role": "user", "content": "..."}, )"
          R"({"role": "assistant", "content": "..."}]})"};
}

bool is_completed_prompt(const ChatLineJson& line) {
  const auto completion = line.find("completion");
  return completion != line.end() && completion->is_array() && line.contains("prompt");
}

/// A completion may repeat the question at its beginning.
std::size_t messages_before_answer(const ChatLineJson& completion) {
  std::size_t count = 0;
  while (count < completion.size() && !is_of_assistant(completion[count])) ++count;
  return count;
}

/// Keys that accompany ids have no meaning for messages.
std::optional<LineProblem> ids_beside_messages(const ChatLineJson& line) {
  for (const char* const key : {"input_ids", "completion_mask", "assistant_masks", "loss_mask",
                                "position_ids", "seq_lengths"})
    if (line.contains(key))
      return LineProblem{"messages, or ids",
                         '"' + std::string(key) + "\" in a line of a conversation",
                         "data.format = \"jsonl\", which reads ids, or leaving the key out"};
  return std::nullopt;
}

std::vector<std::string> unread_keys_of(const ChatLineJson& line, bool is_completed) {
  if (is_completed)
    return keys_besides(line, {"prompt", "completion", "tools", "chat_template_kwargs", "weight"});
  return keys_besides(line, {"messages", "tools", "chat_template_kwargs", "weight"});
}

std::vector<ChatSequence> sequences_of(const ChatLineJson& line, const ChatFormat& format) {
  const ChatSetting setting = setting_of_line(format.setting, line);
  const ChatTemplate chat = format.templates->for_tools(setting.tools);
  const auto messages = line.find("messages");
  if (messages != line.end()) return learned_sequences(chat, *messages, setting);
  const ChatLineJson& completion = line["completion"];
  const AnsweredConversation answered =
      answered_conversation(line["prompt"], completion, messages_before_answer(completion));
  return {answer_pieces(chat, answered.messages, answered.given, setting)};
}

}  // namespace

ChatLine read_chat_line(std::string_view text, const ChatFormat& format) {
  LineJson read = read_line_json(text);
  if (read.problem) return no_chat_line(std::move(*read.problem));
  if (!read.value.is_object())
    return no_chat_line(without_messages("a JSON object", "something else"));
  ForeignLine foreign = with_messages(std::move(read.value));
  if (foreign.problem) return no_chat_line(std::move(*foreign.problem));
  const ChatLineJson& line = foreign.line;
  if (auto problem = ids_beside_messages(line)) return no_chat_line(std::move(*problem));
  const bool is_completed = is_completed_prompt(line);
  if (line.contains("messages") == is_completed)
    return no_chat_line(
        without_messages("an object with \"messages\"",
                         is_completed ? "one with a completion, too" : "none of them"));
  std::variant<float, LineProblem> weight = weight_of_line(line, text);
  if (auto* const problem = std::get_if<LineProblem>(&weight))
    return no_chat_line(std::move(*problem));
  ChatLine made;
  made.weight = std::get<float>(weight);
  made.form = foreign.form;
  made.unread_keys = unread_keys_of(line, is_completed);
  try {
    made.sequences = sequences_of(line, format);
  } catch (const Error& error) {
    return no_chat_line({error.expected(), error.received(), error.suggestion()});
  }
  return made;
}

bool is_chat_line(const ChatLineJson& line) {
  return line.is_object() && (line.contains("messages") || is_completed_prompt(line));
}

}  // namespace accrue::data
