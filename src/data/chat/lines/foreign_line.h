#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "data/text/samples/json_sample.h"

namespace accrue::data {

/// A line in the form of conversations: with "messages".
struct ForeignLine {
  nlohmann::ordered_json line;  ///< null if there is a problem
  LineForm form = LineForm::own;
  std::optional<LineProblem> problem;
};

/// Whether a line has "conversations", ShareGPT's name for messages.
template <class Json>
bool is_sharegpt_line(const Json& line) {
  return line.is_object() && line.contains("conversations");
}

/// Whether a line has "instruction" and "output", as in Alpaca's data.
template <class Json>
bool is_alpaca_line(const Json& line) {
  return line.is_object() && line.contains("instruction") && line.contains("output");
}

/// `line`, an object, with "messages" in place of the forms of other tools; other lines, other keys
/// and the values stay as they are.
///
/// ShareGPT, as axolotl and LLaMA-Factory read it: in each of "conversations" "from" is the role
/// (human, user; gpt, assistant; system; tool, observation; function_call, which is the assistant
/// with its calls as JSON text) and "value" the content; messages with "role" and "content" stay.
/// "system" of the line is the first message.
///
/// Alpaca, as LLaMA-Factory reads it: "instruction" and, unless it is empty, "input" on the next
/// line are the user's message, "output" is the assistant's; "system" and "history", a list of
/// pairs, come before.
ForeignLine with_messages(nlohmann::ordered_json line);

}  // namespace accrue::data
