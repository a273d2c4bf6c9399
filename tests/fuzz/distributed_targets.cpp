// The messages between ranks.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>

#include "distributed/compress/block_codec.h"
#include "distributed/group/membership/members.h"
#include "distributed/group/store/etcd_messages.h"
#include "distributed/group/store/text_seal.h"
#include "distributed/reduce/parcels.h"
#include "fuzz_targets.h"
#include "train/ranks/remaining_window.h"

namespace accrue::fuzz {
namespace {

using distributed::BlockCodec;

std::size_t coded_bytes(const BlockCodec& codec, std::size_t count) {
  return (count + distributed::kCodecBlock - 1) / distributed::kCodecBlock * codec.block_bytes;
}

bool all_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

std::vector<float> decoded(const BlockCodec& codec, const std::vector<std::uint8_t>& code,
                           std::size_t count) {
  std::vector<float> values(count);
  codec.decode_add(code.data(), count, values.data());
  return values;
}

/// Decodes arbitrary bytes, as they might arrive; `is_finite` must be correct.
void decode_any(const BlockCodec& codec, Input input) {
  const std::size_t blocks = input.size() / codec.block_bytes + 1;
  std::vector<std::uint8_t> code(blocks * codec.block_bytes);
  std::copy(input.begin(), input.end(), code.begin());
  const std::size_t count =
      blocks * distributed::kCodecBlock - input.size() % distributed::kCodecBlock;
  if (codec.is_finite(code.data(), count))
    expect(all_finite(decoded(codec, code, count)), "what is_finite lets pass decodes to numbers");
}

/// Bytes as values: finite ones stay finite except at the range's edge; others are detected.
void encode_any(const BlockCodec& codec, Input input) {
  std::vector<float> values(input.size() / sizeof(float));
  if (values.empty()) return;
  std::memcpy(values.data(), input.data(), values.size() * sizeof(float));
  std::vector<std::uint8_t> code(coded_bytes(codec, values.size()));
  codec.encode(values.data(), values.size(), code.data());
  const std::vector<float> back = decoded(codec, code, values.size());
  if (!all_finite(values)) {
    expect(!all_finite(back), "a value that is not finite is seen after coding");
    expect(!codec.is_finite(code.data(), values.size()), "is_finite sees it, too");
    return;
  }
  const auto largest = [](const std::vector<float>& all) {
    return std::accumulate(all.begin(), all.end(), 0.0F,
                           [](float most, float v) { return std::max(most, std::abs(v)); });
  };
  if (largest(values) < 1e38F) expect(all_finite(back), "finite values stay finite");
}

}  // namespace

/// The first bit chooses the codec.
void fuzz_block_codec(Input input) {
  if (input.empty()) return;
  const BlockCodec codec =
      (input[0] & 1) != 0 ? distributed::int8_codec() : distributed::bf16_codec();
  decode_any(codec, input.subspan(1));
  encode_any(codec, input.subspan(1));
}

/// The world, the length of rows (two bytes), then the elements of each tensor (two bytes): for
/// short rows not many, since each row takes a fraction of a millisecond.
void fuzz_parcels(Input input) {
  if (input.size() < 5) return;
  const std::int64_t world = input[0] % 9 + 1;
  const std::int64_t row_elements = (input[1] << 8 | input[2]) + 1, most = 256 * row_elements;
  std::vector<std::int64_t> elements;
  for (std::size_t i = 3; i + 1 < input.size() && elements.size() < 12; i += 2)
    elements.push_back((input[i] << 8 | input[i + 1]) % most);
  std::vector<std::size_t> numbers(elements.size());
  std::iota(numbers.begin(), numbers.end(), 0);

  std::vector<at::Tensor> from, to;
  std::int64_t first = 0;
  for (const std::int64_t count : elements) {
    from.push_back(at::arange(first, first + count, at::kLong));
    to.push_back(at::full({count}, -1, at::kLong));
    first += count;
  }
  std::int64_t moved = 0;
  for (const distributed::Parcel& parcel :
       distributed::make_parcels(elements, numbers, world, row_elements)) {
    expect(parcel.row_elements <= row_elements, "no row is longer than was asked for");
    for (const std::vector<distributed::ParcelItem>& items : parcel.rows) {
      const at::Tensor row = at::empty({parcel.row_elements}, at::kLong);
      distributed::pack(
          items, [&](std::size_t i) { return from[i]; }, row);
      distributed::unpack(items, row, [&](std::size_t i) { return to[i]; });
      for (const distributed::ParcelItem& item : items) moved += item.range.elements;
    }
  }
  expect(moved == first, "each element is moved once");
  for (std::size_t i = 0; i < from.size(); ++i)
    expect(at::equal(from[i], to[i]), "each element arrives at its place");
}

/// The length of a key (one byte), the key, then bytes as they might be stored under it.
void fuzz_sealed_text(Input input) {
  if (input.empty()) return;
  const std::string all(input.begin() + 1, input.end());
  const std::size_t length = std::min<std::size_t>(input[0], all.size());
  const std::string key = all.substr(0, length), bytes = all.substr(length);
  const distributed::TextSeal seal("a token that nobody guesses", "run");
  if (const auto text = seal.opened(key, bytes))
    expect(seal.sealed(key, *text) == bytes, "what opens was sealed");
  std::string sealed = seal.sealed(key, bytes);
  expect(seal.opened(key, sealed) == bytes, "what was sealed opens");
  expect(!seal.opened(key + "/", sealed), "it opens under its key alone");
  sealed[input[0] % sealed.size()] ^= 1;
  expect(!seal.opened(key, sealed), "it does not open when a bit was changed");
}

/// The first byte is half of an HTTP status, then a member's answer. Readers refuse by a
/// std::runtime_error.
void fuzz_etcd_answer(Input input) {
  if (input.empty()) return;
  const std::string body(input.begin() + 1, input.end());
  const auto reads = [&](const auto& read) {
    try {
      read(body);
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  };
  reads([&](const std::string& answer) { distributed::check_answer(2 * input[0], answer); });
  reads(distributed::is_answer);
  reads(distributed::count_in);
  reads(distributed::has_deleted);
  reads(distributed::compared_in);
  reads(distributed::added_in);
  reads(distributed::is_renewed);
  reads([](const std::string& answer) {
    const auto found = distributed::value_in(answer);
    expect(!found || found->value.size() < answer.size(), "no value is longer than its answer");
  });
}

/// A list of members, as it is stored.
void fuzz_members(Input input) {
  const auto list = distributed::member_list(std::string(input.begin(), input.end()));
  if (!list) return;
  expect(distributed::member_list(distributed::to_text(*list)) == list, "a list comes back");
  for (std::size_t rank = 0; rank < list->members.size(); ++rank)
    expect(distributed::rank_of(list->members[rank], *list) == static_cast<int>(rank),
           "a member has one rank");
}

/// The ranges of a window of 64 samples that a rank reports as done.
void fuzz_ranges(Input input) {
  const std::vector<batch::Range> done =
      train::ranges_from_text(std::string(input.begin(), input.end()));
  expect(train::ranges_from_text(train::to_text(done)) == done, "ranges come back");
  std::int64_t samples = 0;
  for (const auto& of_rank : train::divide_remaining_window({0, 64}, {done, {}}, 4))
    for (const batch::Range& range : of_rank) samples += range.size();
  for (const batch::Range& range : done) samples += range.size();
  expect(samples == 64, "each sample is in one place");
}

}  // namespace accrue::fuzz
