#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

namespace accrue::data {

/// A conversation, and how many of its first messages are given.
struct AnsweredConversation {
  nlohmann::ordered_json messages;
  std::size_t given = 0;
};

/// The conversation of a "prompt" and an answer of messages, of which the first `shared` are given
/// if the prompt has nothing else. A prompt of messages precedes the answer. A prompt that is a
/// text is the user's message before an answer that begins with the assistant; before any other
/// answer it has to be the content of one of the given messages. Throws a usage Error for other
/// prompts.
AnsweredConversation answered_conversation(const nlohmann::ordered_json& prompt,
                                           const nlohmann::ordered_json& answer,
                                           std::size_t shared);

}  // namespace accrue::data
