#pragma once

#include <cstddef>

namespace accrue::distributed {

/// Operations for factors of low rank, row-major. These functions give the same bits on every
/// instruction set of an architecture.

/// Replaces the columns of factor[rows, rank] by orthonormal ones that span the same space
/// (modified Gram-Schmidt in double, each column twice: "twice is enough", Parlett, "The Symmetric
/// Eigenvalue Problem", section 6.9). A column that depends on those before it becomes zero.
void orthonormalise(float* factor, std::size_t rows, std::size_t rank);

/// Divides a row by its norm. Returns false, and changes nothing, if the norm is 0.
bool normalise(float* row, std::size_t columns);

/// to[rows, columns] = left[rows, rank] right[rank, columns].
void multiply(const float* left, const float* right, std::size_t rows, std::size_t rank,
              std::size_t columns, float* to);

}  // namespace accrue::distributed
