#include <utility>

#include "data/described_by.h"
#include "data/source_errors.h"

namespace accrue::data {
namespace {

class Slice final : public DescribedBy {
 public:
  Slice(std::shared_ptr<const Source> whole, std::int64_t begin, std::int64_t end)
      : DescribedBy(std::move(whole)), begin_(begin), end_(end) {
    const std::int64_t all = source().size();
    if (begin < 0 || begin > end || end > all) {
      throw usage_error("slice data", "a part of its " + std::to_string(all) + " samples", range(),
                        "a smaller val_fraction or more data");
    }
  }

  std::int64_t size() const override { return end_ - begin_; }
  std::int64_t tokens(std::int64_t index) const override { return source().tokens(shift(index)); }
  std::optional<std::int64_t> class_of(std::int64_t index) const override {
    return source().class_of(shift(index));
  }
  /// The parts of a mixture are consecutive: a slice has none of them.
  std::vector<MixturePart> parts() const override { return {}; }
  std::string fingerprint() const override {
    return source().fingerprint() + ", samples " + range();
  }

  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    return source().fetch(shifted(indices));
  }

  batch::MicroBatch fetch_drawn(std::span<const std::int64_t> indices,
                                std::span<const std::int64_t> draws) const override {
    return source().fetch_drawn(shifted(indices), draws);
  }

 private:
  std::vector<std::int64_t> shifted(std::span<const std::int64_t> indices) const {
    std::vector<std::int64_t> found;
    found.reserve(indices.size());
    for (const std::int64_t index : indices) found.push_back(shift(index));
    return found;
  }
  std::int64_t shift(std::int64_t index) const {
    require_index(index, size());
    return begin_ + index;
  }
  std::string range() const {
    return std::string("[").append(std::to_string(begin_)) + ", " + std::to_string(end_) + ")";
  }

  std::int64_t begin_;
  std::int64_t end_;
};

}  // namespace

std::unique_ptr<Source> slice(std::shared_ptr<const Source> source, std::int64_t begin,
                              std::int64_t end) {
  return std::make_unique<Slice>(std::move(source), begin, end);
}

}  // namespace accrue::data
