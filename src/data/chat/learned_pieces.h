#pragma once

#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/chat/chat_template.h"

namespace accrue::data {

/// What a template sees besides the messages.
struct ChatSetting {
  nlohmann::ordered_json tools;  ///< a list, or null
  nlohmann::ordered_json variables =
      nlohmann::ordered_json::object();  ///< bos_token, eos_token, ...
  std::tm now{};                         ///< what strftime_now shows
};

/// The messages as transformers gives them to a template (5.x, render_jinja_template): documents
/// are null, and what a message reasons, by whichever of its names, is there as reasoning_content
/// and thinking. Throws a usage Error where the messages are no list of objects.
nlohmann::ordered_json chat_variables(const ChatTemplate& chat,
                                      const nlohmann::ordered_json& messages,
                                      const ChatSetting& setting, bool add_generation_prompt);

/// A text by pieces, of which what the model has to say is learned.
using ChatSequence = std::vector<ChatTemplate::Piece>;

/// What is to be trained on of a conversation: each turn of the assistant is learned once, behind
/// the text that the model would be given before it.
///
/// Where the template has {% generation %} blocks, these are learned in the whole conversation.
///
/// Where it has none, a turn is learned from the end of its prompt (the messages before it,
/// rendered with add_generation_prompt) to the end of the messages up to it, rendered. So the token
/// that ends the turn is learned, and what the template writes behind it, such as the line's end
/// behind
/// <|im_end|>: the model says it as little as it says what follows, but TRL learns it both from
/// prompts with completions and in the templates it has for training. The turn's end-of-text token,
/// which some templates write at the end of a conversation alone (Phi-3), is learned there alone.
///
/// One sequence where every turn's prompt, and the turn, begin the whole conversation's text.
/// Templates that show a turn differently once the conversation has gone on (Qwen3 takes out what
/// was thought, Mistral moves the tools) make several: each conversation up to a turn that later
/// ones do not have as it was, in the order of the conversation.
///
/// Throws a usage Error where no message is the assistant's or the template writes nothing of what
/// it says, where a prompt does not begin the text of the turn behind it (templates that write
/// something else for what was said than for what is to be said, as DeepSeek-R1's <think>), and
/// where the template refuses the messages.
std::vector<ChatSequence> learned_sequences(const ChatTemplate& chat,
                                            const nlohmann::ordered_json& messages,
                                            const ChatSetting& setting);

}  // namespace accrue::data
