// SPDX-License-Identifier: GPL-2.0
/* Pages, mappings, memory cgroups; inodes and work queues. */

#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/userfaultfd_k.h>

#include "bindings.h"

struct folio *user_events_page_folio(struct page *page)
{
	return page_folio(page);
}

bool user_events_folio_test_dirty(struct folio *folio)
{
	return folio_test_dirty(folio);
}

bool user_events_folio_trylock(struct folio *folio)
{
	return folio_trylock(folio);
}

/* Whether the folio, which is locked, has a mapping, as anonymous memory has, too. */
bool user_events_folio_has_mapping(struct folio *folio)
{
	return folio->mapping;
}

void user_events_put_page(struct page *page)
{
	put_page(page);
}

bool user_events_userfaultfd_armed(struct vm_area_struct *vma)
{
	return userfaultfd_armed(vma);
}

struct mem_cgroup *user_events_set_active_memcg(struct mem_cgroup *memcg)
{
	return set_active_memcg(memcg);
}

void user_events_mem_cgroup_put(struct mem_cgroup *memcg)
{
	mem_cgroup_put(memcg);
}

/* The address of an inode's character device, which is in an unnamed union. */
struct cdev **user_events_i_cdev(struct inode *inode)
{
	return &inode->i_cdev;
}

struct workqueue_struct *user_events_alloc_workqueue(const char *name)
{
	return alloc_workqueue("%s", WQ_UNBOUND, 0, name);
}
