#pragma once

#include <string>

#include "accrue/core/stored_tensor.h"

namespace accrue::models {

/// A Bert's parameters, or tensors that have their names and shapes, as files have them: query, key
/// and value apart. They share memory.
NamedParameters to_bert_names(const NamedParameters& parameters);

/// Copies a BertForMaskedLM's tensors into `file_tensors`, which are all that a Bert has. What else
/// such files may hold is passed over: a pooler, the head for pairs of sentences, buffers of
/// positions, and the tied decoder; older files call a norm's parameters gamma and beta. Throws a
/// usage Error as copy_by_name() does, and where a decoder has other values than what it is tied
/// to.
void load_bert_names(const NamedParameters& file_tensors, const StoredTensors& tensors,
                     const std::string& origin);

}  // namespace accrue::models
