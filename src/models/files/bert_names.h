#pragma once

#include <string>

#include "accrue/core/stored_tensor.h"

namespace accrue::models {

/// A Bert's parameters, or tensors that have their names and shapes, as files have them: query, key
/// and value apart. They share memory.
NamedParameters to_bert_names(const NamedParameters& parameters);

/// A BertForMaskedLM's tensors under the names that they have now: older files call a norm's
/// parameters gamma and beta, and a tied decoder may be stated in the place of what it is tied to.
/// What else such files may hold is passed over: a pooler, the head for pairs of sentences, buffers
/// of positions, and a decoder that is stated besides. Throws a usage Error if that has other
/// values than what it is tied to.
StoredTensors as_bert_weights(const StoredTensors& tensors, const std::string& origin);

/// Copies them into `file_tensors`, which are all that a Bert has. Throws a usage Error as
/// copy_by_name() and as_bert_weights() do.
void load_bert_names(const NamedParameters& file_tensors, const StoredTensors& tensors,
                     const std::string& origin);

}  // namespace accrue::models
