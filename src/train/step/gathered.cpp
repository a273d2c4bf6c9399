#include "train/step/gathered.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

constexpr std::int64_t kMostDimensions = 8;

[[noreturn]] void refuse(const std::string& received) {
  throw usage_error("gather representations over ranks",
                    "as many of the same dtype and shape from each rank that has samples", received,
                    "the same model and encode on all ranks, and a batch of at least one sample");
}

/// A rank's description of its towers: for each the dtype, the number of dimensions, and the sizes
/// except the rows.
at::Tensor shapes_of(const std::vector<at::Tensor>& own, std::int64_t towers) {
  at::Tensor shapes = at::zeros({towers, 2 + kMostDimensions}, at::kLong);
  for (std::size_t tower = 0; tower < own.size(); ++tower) {
    at::Tensor row = shapes[static_cast<std::int64_t>(tower)];
    row[0] = static_cast<std::int64_t>(own[tower].scalar_type());
    row[1] = own[tower].dim();
    for (std::int64_t i = 1; i < own[tower].dim(); ++i) row[2 + i] = own[tower].size(i);
  }
  return shapes;
}

struct Tower {
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> sizes;  ///< the first is the rows', -1
  std::int64_t row_bytes = 0;
};

Tower tower_of(const at::Tensor& shape) {
  const std::int64_t* value = shape.const_data_ptr<std::int64_t>();
  Tower tower{.dtype = static_cast<at::ScalarType>(value[0]),
              .sizes = {value + 2, value + 2 + value[1]}};
  tower.sizes.front() = -1;
  tower.row_bytes = static_cast<std::int64_t>(c10::elementSize(tower.dtype));
  for (std::size_t i = 1; i < tower.sizes.size(); ++i) tower.row_bytes *= tower.sizes[i];
  return tower;
}

at::Tensor bytes_of(const at::Tensor& own, std::int64_t bytes) {
  at::Tensor padded = at::zeros({bytes}, at::kByte);
  const at::Tensor values = own.detach().cpu().contiguous().view({-1}).view(at::kByte);
  padded.narrow(0, 0, values.numel()).copy_(values);
  return padded;
}

at::Tensor rows_of(const at::Tensor& bytes, const Tower& tower, std::int64_t rows) {
  return bytes.narrow(0, 0, rows * tower.row_bytes).clone().view(tower.dtype).view(tower.sizes);
}

}  // namespace

Gathered gather_rows(distributed::Group& group, const std::vector<at::Tensor>& own,
                     std::int64_t rows) {
  const bool fits = std::ranges::all_of(
      own, [](const at::Tensor& tower) { return tower.dim() <= kMostDimensions; });
  const std::int64_t said = fits ? std::ssize(own) : -1;
  const at::Tensor counts = group.all_gather(at::tensor({rows, said}, at::kLong)).contiguous();
  const std::int64_t towers = counts.select(1, 1).max().item<std::int64_t>();
  const std::int64_t most_rows = counts.select(1, 0).max().item<std::int64_t>();
  if (counts.select(1, 1).min().item<std::int64_t>() < 0) refuse("one of more than 8 dimensions");
  if (most_rows == 0) refuse("no samples on any rank");
  const at::Tensor shapes = group.all_gather(shapes_of(own, towers));
  Gathered all;
  std::int64_t first = -1;
  std::vector<std::int64_t> rows_by_rank;
  for (std::int64_t rank = 0; rank < group.world(); ++rank) {
    rows_by_rank.push_back(counts[rank][0].item<std::int64_t>());
    if (rank < group.rank()) all.begin += rows_by_rank.back();
    all.rows += rows_by_rank.back();
    if (rows_by_rank.back() == 0) continue;
    if (first < 0) first = rank;
    if (!shapes[rank].equal(shapes[first]) ||
        counts[rank][1].item<std::int64_t>() != counts[first][1].item<std::int64_t>())
      refuse("others on rank " + std::to_string(rank) + " than on rank " + std::to_string(first));
  }
  for (std::int64_t i = 0; i < towers; ++i) {
    const Tower tower = tower_of(shapes[first][i]);
    const std::int64_t bytes = most_rows * tower.row_bytes;
    const auto place = static_cast<std::size_t>(i);
    const at::Tensor gathered = group.all_gather(
        place < own.size() ? bytes_of(own[place], bytes) : at::zeros({bytes}, at::kByte));
    std::vector<at::Tensor> parts;
    for (std::int64_t rank = 0; rank < group.world(); ++rank)
      parts.push_back(rows_of(gathered[rank], tower, rows_by_rank[static_cast<std::size_t>(rank)]));
    all.towers.push_back(at::cat(parts));
  }
  return all;
}

}  // namespace accrue::train
