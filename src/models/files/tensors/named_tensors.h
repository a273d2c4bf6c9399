#pragma once

#include <string>

#include "accrue/core/error.h"
#include "accrue/core/stored_tensor.h"

namespace accrue::models {

/// The usage Error of loading `origin` if `tensor` does not fit. `what` describes what fits
/// ("weights of a ResNet of this shape").
Error misfit_of(const std::string& origin, const std::string& tensor, const std::string& expected,
                const std::string& received, const std::string& what);

/// The parameters without autograd, sharing their memory, as they are stored in files.
NamedParameters detached(const NamedParameters& parameters);

/// The stored tensors of a model whose parameters and buffers have the same names in files.
NamedParameters file_tensors_of(const NamedParameters& parameters, const NamedParameters& buffers);

/// Appends a parameter in its stored form: one that holds query, key and value side by side
/// ("X.qkv.weight") as three ("X.query.weight", ...), which share its memory.
void append_split(NamedParameters& tensors, const std::string& name, const at::Tensor& values);

/// The tensors of a model with adapters for which `given` is meant: all of them, or those of the
/// base if none is an adapter's.
NamedParameters targets_of(const NamedParameters& file_tensors, const StoredTensors& given);

/// Throws as copy_by_name() does.
void check_by_name(const NamedParameters& targets, const StoredTensors& given,
                   const std::string& origin, const std::string& what);

/// Gives those of `parameters` that are in blocks the block formats of their `given` tensors, so
/// that these are copied unchanged. Their former values are lost.
void take_formats(const NamedParameters& parameters, const StoredTensors& given);

/// Copies `given` into `targets` by name, one after the other, converting floating-point dtypes,
/// and packing or unpacking if only one of the two is in blocks.
/// Throws a usage Error, naming `origin` and the first tensor that is missing, extra, twice or
/// misshapen, and changes nothing then.
void copy_by_name(const NamedParameters& targets, const StoredTensors& given,
                  const std::string& origin, const std::string& what);

}  // namespace accrue::models
