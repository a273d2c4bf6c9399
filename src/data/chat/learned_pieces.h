#pragma once

#include <vector>

#include "data/chat/generation_pieces.h"

namespace accrue::data {

/// What is to be trained on of a conversation: each turn of the assistant is learned once, behind
/// the text that the model would be given before it. Messages that are withheld
/// (withheld_messages()) are given only.
///
/// If the template has {% generation %} blocks, these are learned in the whole conversation.
///
/// If it has none, a turn is learned from the end of its prompt (the messages before it,
/// rendered with add_generation_prompt; first_prompt() if there are none) to the end of the
/// messages up to it, rendered. So the token that ends the turn is learned, and what the template
/// writes behind it, such as the line's end behind
/// <|im_end|>: the model says it as little as it says what follows, but TRL learns it both from
/// prompts with completions and in the templates it has for training. The turn's end-of-text token,
/// which some templates write at the end of a conversation alone (Phi-3), is learned there alone.
///
/// One sequence where every turn's prompt, and the turn, begin the whole conversation's text.
/// Templates that show a turn differently once the conversation has gone on (Qwen3 takes out what
/// was thought, Mistral moves the tools) make several: each conversation up to a turn that later
/// ones do not have as it was, in the order of the conversation. Where all turns are withheld it is
/// one sequence of which nothing is learned.
///
/// Throws a usage Error if no message is the assistant's or the template writes nothing of what
/// it says, if a prompt does not begin the text of the turn behind it (templates that write
/// something else for what was said than for what is to be said, as DeepSeek-R1's <think>), and
/// where the template refuses the messages.
std::vector<ChatSequence> learned_sequences(const ChatTemplate& chat,
                                            const nlohmann::ordered_json& messages,
                                            const ChatSetting& setting);

/// Whether any of the text is learned.
bool teaches_something(const ChatSequence& sequence);

}  // namespace accrue::data
