#pragma once

#include <string>

#include "accrue/core/stored_tensor.h"

namespace accrue::models {

/// A Bert's parameters, or tensors with their names and shapes, as in files: query, key and value
/// separate. They share memory.
NamedParameters to_bert_names(const NamedParameters& parameters);

/// A BertForMaskedLM's tensors under their present names: older files call a norm's parameters
/// gamma and beta, and a tied decoder may be stored instead of the tensor it is tied to. Other
/// contents of such files are ignored: a pooler, the head for pairs of sentences, buffers of
/// positions, and a decoder that is stored in addition. Throws a usage Error if that has other
/// values than the tensor it is tied to.
StoredTensors as_bert_weights(const StoredTensors& tensors, const std::string& origin);

/// Copies them into `file_tensors`, which are all tensors of a Bert. Throws a usage Error as
/// copy_by_name() and as_bert_weights() do.
void load_bert_names(const NamedParameters& file_tensors, const StoredTensors& tensors,
                     const std::string& origin);

}  // namespace accrue::models
