#include "distributed/compress/power_sgd.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "core/rng.h"
#include "distributed/compress/compression_shards.h"
#include "distributed/compress/feedback_compressor.h"
#include "distributed/compress/low_rank.h"

namespace accrue::distributed {
namespace {

constexpr std::int64_t kGrainElements = 1 << 15;

bool all_finite(const at::Tensor& values) { return at::isfinite(values).all().item<bool>(); }

class PowerSgd final : public FeedbackCompressor {
 public:
  PowerSgd(std::int64_t elements, std::vector<MatrixRange> matrices, std::int64_t world,
           const PowerSgdOptions& options)
      : FeedbackCompressor("powersgd", elements, world), rank_(options.rank), seed_(options.seed) {
    if (rank_ < 1) refuse("a rank of at least 1", std::to_string(rank_));
    std::ranges::sort(matrices, {}, &MatrixRange::offset);
    require_apart(matrices);
    for (const MatrixRange& matrix : matrices)
      if (rank_ * (matrix.rows + matrix.columns) < matrix.rows * matrix.columns) add(matrix);
    find_rest();
    rights_ = at::zeros({rights_elements_}, at::kFloat);
    renew_rights();
    share("right_factors", rights_);
  }

 private:
  /// A matrix and the offsets of its factors in the shared flat tensors: left [rows, rank], right
  /// [rank, columns].
  struct Factored {
    MatrixRange matrix;
    std::int64_t left = 0, right = 0;
  };

  CompressedSum sum_corrected(const at::Tensor& values, double, Exchange& exchange) override {
    const at::Tensor lefts = sketched(values);
    CompressedSum result{.sent_bytes = ordered_sum(lefts, exchange)};
    if (!all_finite(lefts)) return spoiled(values, result);
    for (const Factored& factored : factored_)
      orthonormalise(left_of(lefts, factored).mutable_data_ptr<float>(),
                     static_cast<std::size_t>(factored.matrix.rows),
                     static_cast<std::size_t>(rank_));

    const at::Tensor own = projected(values, lefts);
    const at::Tensor rights = own.clone();
    if (rights.numel() > 0) result.sent_bytes += ordered_sum(rights, exchange);
    if (!all_finite(rights)) return spoiled(values, result);
    keep_errors(values, lefts, own);
    reconstruct(values, lefts, rights);
    rights_.copy_(rights);
    renew_rights();
    return result;
  }

  /// M Q of each matrix, then the elements outside all matrices.
  at::Tensor sketched(const at::Tensor& values) const {
    const at::Tensor lefts = at::empty({lefts_elements_ + rest_elements_}, at::kFloat);
    for (const Factored& factored : factored_) {
      at::Tensor left = left_of(lefts, factored);
      at::mm_out(left, matrix_of(values, factored), right_of(rights_, factored).t());
    }
    each_rest(values, lefts, [](const at::Tensor& in_values, const at::Tensor& in_lefts) {
      in_lefts.copy_(in_values);
    });
    return lefts;
  }

  /// PᵀM of each matrix.
  at::Tensor projected(const at::Tensor& values, const at::Tensor& lefts) const {
    const at::Tensor rights = at::empty({rights_elements_}, at::kFloat);
    for (const Factored& factored : factored_) {
      at::Tensor right = right_of(rights, factored);
      at::mm_out(right, left_of(lefts, factored).t(), matrix_of(values, factored));
    }
    return rights;
  }

  void keep_errors(const at::Tensor& values, const at::Tensor& lefts, const at::Tensor& rights) {
    for (const Factored& factored : factored_) {
      at::Tensor error = matrix_of(residual(), factored);
      at::addmm_out(error, matrix_of(values, factored), left_of(lefts, factored),
                    right_of(rights, factored), 1, -1);
    }
  }

  void reconstruct(const at::Tensor& values, const at::Tensor& lefts,
                   const at::Tensor& rights) const {
    for (const Factored& factored : factored_) {
      const std::int64_t columns = factored.matrix.columns;
      const float* const left = left_of(lefts, factored).const_data_ptr<float>();
      const float* const right = right_of(rights, factored).const_data_ptr<float>();
      float* const to = matrix_of(values, factored).mutable_data_ptr<float>();
      at::parallel_for(0, factored.matrix.rows, std::max<std::int64_t>(1, kGrainElements / columns),
                       [&](std::int64_t begin, std::int64_t end) {
                         multiply(left + begin * rank_, right,
                                  static_cast<std::size_t>(end - begin),
                                  static_cast<std::size_t>(rank_),
                                  static_cast<std::size_t>(columns), to + begin * columns);
                       });
    }
    each_rest(values, lefts, [](const at::Tensor& in_values, const at::Tensor& in_lefts) {
      in_values.copy_(in_lefts);
    });
  }

  CompressedSum spoiled(const at::Tensor& values, CompressedSum result) const {
    values.fill_(std::numeric_limits<float>::quiet_NaN());
    result.finite = false;
    return result;
  }

  /// Scales rows to length 1: the next step only uses their directions. A row of zeros (of a
  /// parameter that was not used) would stay zero, and is drawn again.
  void renew_rights() {
    std::uint64_t stream = 0;
    for (const Factored& factored : factored_) {
      const auto columns = static_cast<std::size_t>(factored.matrix.columns);
      float* row = right_of(rights_, factored).mutable_data_ptr<float>();
      for (std::int64_t k = 0; k < rank_; ++k, row += columns, ++stream) {
        if (normalise(row, columns)) continue;
        fill_normal({row, columns}, seed_, stream);
        normalise(row, columns);
      }
    }
  }

  void require_apart(const std::vector<MatrixRange>& sorted) const {
    std::int64_t end = 0;
    for (const MatrixRange& matrix : sorted) {
      if (matrix.rows < 0 || matrix.columns < 0 || matrix.offset < end ||
          matrix.offset + matrix.rows * matrix.columns > elements())
        refuse("matrices apart within " + std::to_string(elements()) + " elements",
               std::to_string(matrix.rows) + " x " + std::to_string(matrix.columns) + " at " +
                   std::to_string(matrix.offset));
      end = matrix.offset + matrix.rows * matrix.columns;
    }
  }

  void add(const MatrixRange& matrix) {
    factored_.push_back({matrix, lefts_elements_, rights_elements_});
    lefts_elements_ += matrix.rows * rank_;
    rights_elements_ += matrix.columns * rank_;
  }

  /// Finds the ranges between the factored matrices.
  void find_rest() {
    std::int64_t begin = 0;
    const auto add_until = [&](std::int64_t end) {
      if (begin < end) rest_.push_back({begin, end - begin});
      rest_elements_ += end - begin;
    };
    for (const auto& [matrix, left, right] : factored_) {
      add_until(matrix.offset);
      begin = matrix.offset + matrix.rows * matrix.columns;
    }
    add_until(elements());
  }

  template <class Run>
  void each_rest(const at::Tensor& values, const at::Tensor& lefts, const Run& run) const {
    std::int64_t at = lefts_elements_;
    for (const FlatRange& range : rest_) {
      run(values.narrow(0, range.offset, range.elements), lefts.narrow(0, at, range.elements));
      at += range.elements;
    }
  }

  static at::Tensor matrix_of(const at::Tensor& values, const Factored& factored) {
    const MatrixRange& matrix = factored.matrix;
    return values.narrow(0, matrix.offset, matrix.rows * matrix.columns)
        .view({matrix.rows, matrix.columns});
  }
  at::Tensor left_of(const at::Tensor& lefts, const Factored& factored) const {
    return lefts.narrow(0, factored.left, factored.matrix.rows * rank_)
        .view({factored.matrix.rows, rank_});
  }
  at::Tensor right_of(const at::Tensor& rights, const Factored& factored) const {
    return rights.narrow(0, factored.right, factored.matrix.columns * rank_)
        .view({rank_, factored.matrix.columns});
  }

  std::int64_t rank_;
  std::uint64_t seed_;
  std::vector<Factored> factored_;
  std::vector<FlatRange> rest_;
  std::int64_t lefts_elements_ = 0, rights_elements_ = 0, rest_elements_ = 0;
  at::Tensor rights_;  ///< right factors of the last sum, from which the next one starts
};

}  // namespace

std::unique_ptr<Compressor> make_power_sgd(std::int64_t elements, std::vector<MatrixRange> matrices,
                                           std::int64_t world, const PowerSgdOptions& options) {
  return std::make_unique<PowerSgd>(elements, std::move(matrices), world, options);
}

}  // namespace accrue::distributed
