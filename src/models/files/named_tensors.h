#pragma once

#include <string>

#include "accrue/core/error.h"
#include "accrue/core/stored_tensor.h"

namespace accrue::models {

/// The usage Error of loading `origin` where `tensor` does not fit. `what` says what fits ("weights
/// of a ResNet of this shape").
Error misfit_of(const std::string& origin, const std::string& tensor, const std::string& expected,
                const std::string& received, const std::string& what);

/// The parameters without autograd, sharing their memory: what files hold of them.
NamedParameters detached(const NamedParameters& parameters);

/// What files hold of a model whose parameters and buffers have their names there.
NamedParameters file_tensors_of(const NamedParameters& parameters, const NamedParameters& buffers);

/// Appends a parameter as files have it: one that holds query, key and value side by side
/// ("X.qkv.weight") as three ("X.query.weight", ...), which share its memory.
void append_apart(NamedParameters& tensors, const std::string& name, const at::Tensor& values);

/// The tensors of a model with adapters that `given` are for: all of them, or those of the base
/// if none is an adapter's.
NamedParameters targets_of(const NamedParameters& file_tensors, const StoredTensors& given);

/// Throws as copy_by_name() does.
void check_by_name(const NamedParameters& targets, const StoredTensors& given,
                   const std::string& origin, const std::string& what);

/// Gives those of `parameters` that are in blocks the formats of blocks that were `given` for them,
/// so that these are copied as they are. What they held is lost.
void take_formats(const NamedParameters& parameters, const StoredTensors& given);

/// Copies `given` into `targets` by name, one after the other, converting floating-point dtypes,
/// and packing or unpacking if only one of the two is in blocks.
/// Throws a usage Error, naming `origin` and the first tensor that is missing, extra, twice or
/// misshapen, and changes nothing then.
void copy_by_name(const NamedParameters& targets, const StoredTensors& given,
                  const std::string& origin, const std::string& what);

}  // namespace accrue::models
