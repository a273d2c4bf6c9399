#pragma once

#include <vector>

#include "data/chat/conversation/generation_pieces.h"

namespace accrue::data {

/// The learned parts of a conversation: each turn of the assistant is learned once, after the text
/// that the model would be given before it. Messages that are withheld (withheld_messages()) are
/// only given.
///
/// If the template has {% generation %} blocks, these are learned in the whole conversation.
///
/// If it has none, a turn is learned from the end of its prompt (the messages before it, rendered
/// with add_generation_prompt; first_prompt() if there are none) to the end of the rendered
/// messages up to it. So the token that ends the turn is learned, and so is the text that the
/// template writes after it, such as the line's end after <|im_end|>: the model does not generate
/// that, but TRL learns it both from prompts with completions and in its templates for training. A
/// turn's end-of-text token that some templates write only at the end of a conversation (Phi-3) is
/// only learned there.
///
/// One sequence if every turn's prompt, and the turn, begin the whole conversation's text.
/// Templates that render a turn differently when the conversation continues (Qwen3 removes the
/// reasoning, Mistral moves the tools) make several: each conversation up to a turn that later ones
/// do not show unchanged, in the order of the conversation. If all turns are withheld it is one
/// sequence with nothing learned.
///
/// Throws a usage Error if no message is the assistant's or the template writes none of its
/// words, if a prompt does not begin the text of the turn after it (templates that render a past
/// turn differently than a prompt, as DeepSeek-R1's <think>), and if the template refuses the
/// messages.
std::vector<ChatSequence> learned_sequences(const ChatTemplate& chat,
                                            const nlohmann::ordered_json& messages,
                                            const ChatSetting& setting);

/// Whether any of the text is learned.
bool teaches_something(const ChatSequence& sequence);

}  // namespace accrue::data
