#pragma once

#include "accrue/core/parameter.h"
#include "accrue/models/trainable.h"
#include "distributed/reduce/parameter_shards.h"

namespace accrue::train {

/// The parameters of a model that ranks divide: trained ones that a segment lists
/// (models::Segment::weights) and that lie in the memory::ShardScope, which takes large tensors.
/// `trained` are those of the gradient buffer and the optimizer, in their order. All ranks get the
/// same.
distributed::ModelDivision division_of(models::Trainable& model, const NamedParameters& trained);

}  // namespace accrue::train
