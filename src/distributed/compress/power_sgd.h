#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "distributed/compress/compression.h"

namespace accrue::distributed {

/// The position of a matrix in a flat range: row-major, from `offset` on. A tensor of more
/// dimensions is a matrix of its first dimension by all others.
struct MatrixRange {
  std::int64_t offset = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

struct PowerSgdOptions {
  std::int64_t rank = 4;   ///< columns of the two factors
  std::uint64_t seed = 0;  ///< draws the first right factors; the same on every rank
};

/// PowerSGD (Vogels, Karimireddy, Jaggi, arXiv:1905.13727): each matrix M (gradient and kept error)
/// is sent as two thin factors, one step of a subspace iteration that starts from the window
/// before: P = sum of M Q over ranks, orthonormalised; Q = sum of MᵀP; the sum becomes P Qᵀ. A rank
/// keeps M - P (MᵀP)ᵀ, the part of its own M outside P (the paper's code takes the ranks' mean
/// there, which has the same total and a larger norm if ranks differ).
///
/// Elements outside all matrices, and matrices that factors would not make smaller, are summed in
/// fp32. A rank sends 8 (world - 1) / world * (rank * (rows + columns) over matrices + other
/// elements) bytes, keeps one fp32 value an element and the right factors.
///
/// P and P Qᵀ are computed from sums that are the same on every rank, by code that does not depend
/// on the instruction set, so that every rank has the same bits.
///
/// Throws a usage Error if matrices overlap or leave the range, or the rank is below 1.
std::unique_ptr<Compressor> make_power_sgd(std::int64_t elements, std::vector<MatrixRange> matrices,
                                           std::int64_t world, const PowerSgdOptions& options = {});

}  // namespace accrue::distributed
