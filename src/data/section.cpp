#include "data/section.h"

#include <string>
#include <utility>

#include "accrue/core/error.h"
#include "data/renumbered.h"

namespace accrue::data {
namespace {

class Section final : public Renumbered {
 public:
  Section(std::shared_ptr<const Source> own, std::int64_t first, std::int64_t total)
      : Renumbered(std::move(own)), first_(first), total_(total) {
    if (first < 0 || total < 1 || first > total - source().size())
      throw usage_error("section of data",
                        "a place for its " + std::to_string(source().size()) + " samples among " +
                            std::to_string(total),
                        samples(), "the total over all sections, and what lies before this one");
    if (!source().parts().empty())
      throw usage_error("section of data", "files that are joined", "data.weights",
                        "data.train without weights");
  }

  std::int64_t size() const override { return total_; }

 private:
  std::int64_t number_in_source(std::int64_t index) const override {
    if (index >= first_ && index < first_ + source().size()) return index - first_;
    throw usage_error("fetch samples", "samples " + samples() + " of " + std::to_string(total_),
                      std::to_string(index), "the process that has the section of that sample");
  }
  std::string samples() const {
    return std::string("[").append(std::to_string(first_)) + ", " +
           std::to_string(first_ + source().size()) + ")";
  }

  std::int64_t first_, total_;
};

}  // namespace

std::unique_ptr<Source> section(std::shared_ptr<const Source> own, std::int64_t first,
                                std::int64_t total) {
  return std::make_unique<Section>(std::move(own), first, total);
}

}  // namespace accrue::data
