#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>
#include <pthread.h>
static double now(){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec+t.tv_nsec*1e-9;}
static void* spin(void*a){double e=now()+5,p=now(),lost=0,max=0;int n=0;while(p<e){double t=now();double g=t-p;if(g>100e-6){lost+=g;n++;if(g>max)max=g;}p=t;}printf("gaps>100us %d, lost %.3f%% of time, max %.2f ms\n",n,lost/5*100,max*1e3);return 0;}
int main(int c,char**v){int n=c>1?2:1;pthread_t t[2];for(int i=0;i<n;i++)pthread_create(&t[i],0,spin,0);for(int i=0;i<n;i++)pthread_join(t[i],0);}
